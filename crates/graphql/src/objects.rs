//! The object types of the schema: what a machine looks like in GraphQL. Order, names and types are those of the service this one
//! replaces; programs depend on them.

use std::{borrow::Cow, io::Write as _};

use async_graphql::{
    ContextSelectionSet, OutputType, Positioned, ServerResult, Value,
    parser::types::Field as Selected,
    registry::{MetaType, MetaTypeId, Registry},
};
use jiff::Timestamp;
use sabakan_domain::{
    lifecycle::HealthState,
    machine::{Bmc, Machine, Nic, Status},
    words::{LabelName, LabelValue},
};

use crate::{
    input::MachineState,
    render::{Chosen, Field, Object, One, choose, write, write_json, write_list},
};

/// A field whose value is an object or a list of objects.
macro_rules! branch {
    ($name:literal, $ty:literal, $object:ty, $about:literal, $write:expr) => {
        Field {
            name: $name,
            ty: $ty,
            about: $about,
            register: One::<$object>::register,
            choose: Some(choose::<$object>),
            write: $write,
        }
    };
}

/// A field whose value is a text, a number or a list of them.
macro_rules! leaf {
    ($name:literal, $ty:literal, $register:expr, $about:literal, $write:expr) => {
        Field { name: $name, ty: $ty, about: $about, register: $register, choose: None, write: $write }
    };
    ($name:literal, $ty:literal, $about:literal, $write:expr) => {
        leaf!($name, $ty, |_| {}, $about, $write)
    };
}

/// A machine.
pub struct MachineObject;

impl Object for MachineObject {
    type Of = Machine;
    const NAME: &'static str = "Machine";
    const ABOUT: &'static str = "A registered machine.";
    const FIELDS: &'static [Field<Machine>] = &[
        branch!("spec", "MachineSpec!", SpecObject, "What it is.", |m, now, chosen, out| {
            write::<SpecObject>(m, now, chosen, out);
        }),
        branch!("status", "MachineStatus!", StatusObject, "Where it is in its life.", |m, now, chosen, out| {
            write::<StatusObject>(&m.status, now, chosen, out);
        }),
        branch!("info", "MachineInfo!", InfoObject, "How its networks are configured.", |m, now, chosen, out| {
            write::<InfoObject>(m, now, chosen, out);
        }),
    ];
}

/// What is registered of a machine.
pub struct SpecObject;

impl Object for SpecObject {
    type Of = Machine;
    const NAME: &'static str = "MachineSpec";
    const ABOUT: &'static str = "What is registered of a machine.";
    const FIELDS: &'static [Field<Machine>] = &[
        leaf!("serial", "ID!", "Its serial number.", |m, _, _, out| write_json(m.serial.as_str(), out)),
        branch!("labels", "[Label!]", LabelObject, "Its labels by name; null if it has none.", write_labels),
        leaf!("rack", "Int!", "The number of its rack.", |m, _, _, out| write_json(&m.rack.0, out)),
        leaf!("indexInRack", "Int!", "Its position in the rack.", |m, _, _, out| write_json(&m.index_in_rack, out)),
        leaf!("role", "String!", "What it is for.", |m, _, _, out| write_json(m.role.as_str(), out)),
        leaf!("ipv4", "[IPAddress!]!", register::<IpAddress>, "Its addresses, in order.", |m, _, _, out| {
            for (n, address) in m.ipv4().enumerate() {
                out.push(if n == 0 { b'[' } else { b',' });
                write_plain(address, out);
            }
            // A machine has at least one.
            out.push(b']');
        }),
        leaf!("registerDate", "DateTime!", register::<DateTime>, "When it was registered.", |m, _, _, out| {
            write_plain(m.register_date, out);
        }),
        leaf!("retireDate", "DateTime!", register::<DateTime>, "When it should go.", |m, _, _, out| {
            write_plain(m.retire_date, out);
        }),
        branch!("bmc", "BMC!", BmcObject, "Its management controller.", |m, now, chosen, out| {
            write::<BmcObject>(&m.bmc, now, chosen, out);
        }),
    ];
}

fn write_labels(machine: &Machine, now: Timestamp, chosen: &[Chosen], out: &mut Vec<u8>) {
    if machine.labels.is_empty() {
        return out.extend_from_slice(b"null");
    }
    write_list::<LabelObject>(machine.labels.pairs(), now, chosen, out);
}

/// A label.
pub struct LabelObject;

impl Object for LabelObject {
    type Of = (LabelName, LabelValue);
    const NAME: &'static str = "Label";
    const ABOUT: &'static str = "A label of a machine.";
    const FIELDS: &'static [Field<(LabelName, LabelValue)>] = &[
        leaf!("name", "String!", "Its name.", |label, _, _, out| write_json(label.0.as_str(), out)),
        leaf!("value", "String!", "Its value.", |label, _, _, out| write_json(label.1.as_str(), out)),
    ];
}

/// A management controller.
pub struct BmcObject;

impl Object for BmcObject {
    type Of = Bmc;
    const NAME: &'static str = "BMC";
    const ABOUT: &'static str = "A management controller.";
    const FIELDS: &'static [Field<Bmc>] = &[
        leaf!("bmcType", "String!", "How it is spoken to.", |bmc, _, _, out| write_json(bmc.kind.as_str(), out)),
        leaf!("ipv4", "IPAddress!", register::<IpAddress>, "Its address.", |bmc, _, _, out| {
            write_plain(bmc.nic.address, out);
        }),
    ];
}

/// Where a machine is in its life.
pub struct StatusObject;

impl Object for StatusObject {
    type Of = Status;
    const NAME: &'static str = "MachineStatus";
    const ABOUT: &'static str = "Where a machine is in its life.";
    const FIELDS: &'static [Field<Status>] = &[
        leaf!("state", "MachineState!", register_state, "Its state.", |status, _, _, out| {
            write_state(status.state, out);
        }),
        leaf!("timestamp", "DateTime!", register::<DateTime>, "Since when.", |status, _, _, out| {
            write_plain(status.since, out);
        }),
        leaf!("duration", "Float!", "For how many seconds, when the request began.", |status, now, _, out| {
            write_json(&status.seconds(now), out);
        }),
    ];
}

fn register_state(registry: &mut Registry) {
    MachineState::register(registry);
}

fn write_state(state: HealthState, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend(state.as_str().bytes().map(|byte| byte.to_ascii_uppercase()));
    out.push(b'"');
}

/// How the networks of a machine are configured.
pub struct InfoObject;

impl Object for InfoObject {
    type Of = Machine;
    const NAME: &'static str = "MachineInfo";
    const ABOUT: &'static str = "How the networks of a machine are configured.";
    const FIELDS: &'static [Field<Machine>] = &[
        branch!("network", "NetworkInfo!", NetworkObject, "Of its operating system.", |m, now, chosen, out| {
            write::<NetworkObject>(&m.nics, now, chosen, out);
        }),
        branch!("bmc", "BMCInfo!", BmcInfoObject, "Of its management controller.", |m, now, chosen, out| {
            write::<BmcInfoObject>(&m.bmc, now, chosen, out);
        }),
    ];
}

/// The networks of an operating system.
pub struct NetworkObject;

impl Object for NetworkObject {
    type Of = [Nic];
    const NAME: &'static str = "NetworkInfo";
    const ABOUT: &'static str = "The networks of an operating system.";
    const FIELDS: &'static [Field<[Nic]>] =
        &[branch!("ipv4", "[NICConfig!]!", NicObject, "One for each address, in order.", |nics, now, chosen, out| {
            write_list::<NicObject>(nics, now, chosen, out);
        })];
}

/// The network of a management controller.
pub struct BmcInfoObject;

impl Object for BmcInfoObject {
    type Of = Bmc;
    const NAME: &'static str = "BMCInfo";
    const ABOUT: &'static str = "The network of a management controller.";
    const FIELDS: &'static [Field<Bmc>] =
        &[branch!("ipv4", "NICConfig!", NicObject, "Its configuration.", |bmc, now, chosen, out| {
            write::<NicObject>(&bmc.nic, now, chosen, out);
        })];
}

/// A configured network interface.
pub struct NicObject;

impl Object for NicObject {
    type Of = Nic;
    const NAME: &'static str = "NICConfig";
    const ABOUT: &'static str = "A configured network interface.";
    const FIELDS: &'static [Field<Nic>] = &[
        leaf!("address", "IPAddress!", register::<IpAddress>, "Its address.", |nic, _, _, out| {
            write_plain(nic.address, out);
        }),
        leaf!("netmask", "IPAddress!", register::<IpAddress>, "The mask in dotted form.", |nic, _, _, out| {
            write_plain(nic.netmask(), out);
        }),
        leaf!("maskbits", "Int!", "The mask as a prefix length.", |nic, _, _, out| write_json(&nic.maskbits, out)),
        leaf!("gateway", "IPAddress!", register::<IpAddress>, "The way out of its network.", |nic, _, _, out| {
            write_plain(nic.gateway, out);
        }),
    ];
}

/// Writes an address or a time as a text. Neither holds anything JSON would escape.
fn write_plain(value: impl std::fmt::Display, out: &mut Vec<u8>) {
    write!(out, "\"{value}\"").expect("writing to memory does not fail");
}

/// A scalar that is only ever written.
trait Scalar: Send + Sync + 'static {
    const NAME: &'static str;
    const ABOUT: &'static str;
}

struct IpAddress;

impl Scalar for IpAddress {
    const NAME: &'static str = "IPAddress";
    const ABOUT: &'static str = "An IP address, as a text.";
}

struct DateTime;

impl Scalar for DateTime {
    const NAME: &'static str = "DateTime";
    const ABOUT: &'static str = "A time in RFC 3339, with as many digits of a second as needed.";
}

/// Stands for a scalar in the schema; there are no values of it.
struct Named<S>(std::marker::PhantomData<S>);

fn register<S: Scalar>(registry: &mut Registry) {
    Named::<S>::create_type_info(registry);
}

impl<S: Scalar> OutputType for Named<S> {
    fn type_name() -> Cow<'static, str> {
        S::NAME.into()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        registry.create_output_type::<Self, _>(MetaTypeId::Scalar, |_| MetaType::Scalar {
            name: S::NAME.to_owned(),
            description: Some(S::ABOUT.to_owned()),
            is_valid: None,
            visible: None,
            inaccessible: false,
            tags: Vec::new(),
            specified_by_url: None,
            directive_invocations: Vec::new(),
            requires_scopes: Vec::new(),
        })
    }

    async fn resolve(&self, _: &ContextSelectionSet<'_>, _: &Positioned<Selected>) -> ServerResult<Value> {
        Ok(Value::Null)
    }
}
