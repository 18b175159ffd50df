//! A node as answers show it: which members, since which version, with which values.

use sabakan_domain::{
    lifecycle::HealthState,
    provision::{
        boot::BootMode,
        details::Details,
        edit::{self, MASK},
        interfaces::{self, Slot},
        node::{Maintenance, Node, Object, Operation, Phase, Power, RamdiskContact, Work},
        states::State,
        steps::Step,
    },
};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value, json};

use super::{Field as _, Version, field::fields, links, time};

fields! {
    /// A member of a node, in the order answers have them.
    NodeField of "node";
    lists show Uuid InstanceUuid Maintenance PowerState ProvisionState Name Links;

    Uuid "uuid" 1,
    CreatedAt "created_at" 1,
    UpdatedAt "updated_at" 1,
    AutomatedClean "automated_clean" 47,
    BiosInterface "bios_interface" 40,
    BootInterface "boot_interface" 31,
    BootMode "boot_mode" 75,
    CleanStep "clean_step" 7,
    ConductorGroup "conductor_group" 46,
    ConsoleEnabled "console_enabled" 1,
    ConsoleInterface "console_interface" 31,
    DisablePowerOff "disable_power_off" 95,
    DeployInterface "deploy_interface" 31,
    DeployStep "deploy_step" 44,
    Description "description" 51,
    Driver "driver" 1,
    DriverInfo "driver_info" 1,
    DriverInternalInfo "driver_internal_info" 3,
    Extra "extra" 1,
    Fault "fault" 42,
    FirmwareInterface "firmware_interface" 86,
    Health "health" 109,
    InspectionFinishedAt "inspection_finished_at" 6,
    InspectionStartedAt "inspection_started_at" 6,
    InspectInterface "inspect_interface" 31,
    InstanceInfo "instance_info" 1,
    InstanceName "instance_name" 104,
    InstanceUuid "instance_uuid" 1,
    LastError "last_error" 1,
    Lessee "lessee" 65,
    Maintenance "maintenance" 1,
    MaintenanceReason "maintenance_reason" 1,
    ManagementInterface "management_interface" 31,
    Name "name" 5,
    NetworkData "network_data" 66,
    NetworkInterface "network_interface" 20,
    Owner "owner" 50,
    ParentNode "parent_node" 83,
    PowerInterface "power_interface" 31,
    PowerState "power_state" 1,
    Properties "properties" 1,
    Protected "protected" 48,
    ProtectedReason "protected_reason" 48,
    ProvisionState "provision_state" 1,
    ProvisionUpdatedAt "provision_updated_at" 1,
    RaidConfig "raid_config" 12,
    RaidInterface "raid_interface" 31,
    RescueInterface "rescue_interface" 38,
    Reservation "reservation" 1,
    ResourceClass "resource_class" 21,
    Retired "retired" 61,
    RetiredReason "retired_reason" 61,
    SecureBoot "secure_boot" 75,
    ServiceStep "service_step" 87,
    Shard "shard" 82,
    StorageInterface "storage_interface" 33,
    TargetPowerState "target_power_state" 1,
    TargetProvisionState "target_provision_state" 1,
    TargetRaidConfig "target_raid_config" 12,
    Traits "traits" 37,
    VendorInterface "vendor_interface" 31,
    Links "links" 1,
    Conductor "conductor" 49,
    AllocationUuid "allocation_uuid" 52,
    ChassisUuid "chassis_uuid" 1,
    Ports "ports" 1,
    States "states" 14,
    Portgroups "portgroups" 24,
    Volume "volume" 32,
}

impl NodeField {
    fn slot(self) -> Option<Slot> {
        Slot::ALL.into_iter().find(|slot| slot.field() == self.name())
    }
}

/// A node with what belongs to it.
#[derive(Debug, Clone, Copy)]
pub struct NodeParts<'a> {
    /// The node.
    pub node: &'a Node,
    /// The lifecycle state of its machine.
    pub machine: Option<HealthState>,
    /// Its driver.
    pub driver: Option<&'a str>,
    /// Who works on it.
    pub holder: Option<&'a str>,
    /// Who works on it, or would.
    pub conductor: Option<&'a str>,
}

/// Some members of a node, in a version.
#[derive(Debug, Clone, Copy)]
pub struct NodeAnswer<'a> {
    /// The node.
    pub parts: NodeParts<'a>,
    /// Which members.
    pub fields: &'a [NodeField],
    /// The version of the answer.
    pub version: Version,
    /// What links begin with.
    pub base: &'a str,
}

impl Serialize for NodeAnswer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len()))?;
        for field in self.fields {
            map.serialize_entry(field.name(), &self.value(*field))?;
        }
        map.end()
    }
}

impl NodeAnswer<'_> {
    /// The value of one member. A test shows every member of a node that has everything.
    fn value(&self, field: NodeField) -> Value {
        if let Some(slot) = field.slot() {
            return json!(interfaces::effective(&self.parts.node.details.interfaces, self.parts.driver, slot));
        }
        self.described(field).or_else(|| self.worked(field)).unwrap_or_else(|| self.known(field))
    }

    /// What callers noted.
    fn described(&self, field: NodeField) -> Option<Value> {
        let Details {
            resource_class,
            owner,
            lessee,
            shard,
            description,
            instance_uuid,
            instance_name,
            allocation,
            parent,
            chassis,
            network_data,
            retired_reason,
            interfaces: _, // effective
            traits,
            target_raid,
            edited_at: _, // updated_at
        } = &self.parts.node.details;
        Some(match field {
            NodeField::ResourceClass => json!(resource_class),
            NodeField::Owner => json!(owner),
            NodeField::Lessee => json!(lessee),
            NodeField::Shard => json!(shard),
            NodeField::Description => json!(description),
            NodeField::InstanceUuid => json!(instance_uuid),
            NodeField::InstanceName => json!(instance_name),
            NodeField::AllocationUuid => json!(allocation.map(|id| id.to_string())),
            NodeField::ParentNode => json!(parent.map(|id| id.to_string())),
            NodeField::ChassisUuid => json!(chassis.map(|id| id.to_string())),
            NodeField::NetworkData => json!(network_data),
            NodeField::RetiredReason => json!(retired_reason),
            NodeField::Traits => json!(traits),
            NodeField::TargetRaidConfig => json!(target_raid),
            _ => return None,
        })
    }

    /// Work, power, times and links.
    fn worked(&self, field: NodeField) -> Option<Value> {
        let NodeParts { node, holder, conductor, .. } = self.parts;
        let Power { state: power, since: powered_at, action, silent: _ } = &node.power;
        let operation = node.operation.as_ref();
        let at = |at: Option<jiff::Timestamp>| json!(at.map(time));
        let links = |rest: &str| json!(links(self.base, &format!("nodes/{}{rest}", node.id)));
        Some(match field {
            NodeField::CreatedAt => at(Some(node.created_at)),
            NodeField::UpdatedAt => at(node.updated_at()),
            NodeField::ProvisionUpdatedAt => at(node.moved_at()),
            NodeField::InspectionFinishedAt => at(node.inspected_at),
            NodeField::InspectionStartedAt => at(node.inspection_started()),
            NodeField::CleanStep => step_of(operation, &[Work::AutomatedClean, Work::ManualClean]),
            NodeField::DeployStep => step_of(operation, &[Work::Deploy]),
            NodeField::ServiceStep => step_of(operation, &[Work::Service]),
            NodeField::DriverInternalInfo => internal(operation, *powered_at),
            NodeField::PowerState => json!(power.map(|state| state.as_str())),
            NodeField::TargetPowerState => json!(action.as_ref().map(|action| action.target.result().as_str())),
            NodeField::Reservation => json!(holder),
            NodeField::Conductor => json!(conductor),
            NodeField::Links => links(""),
            NodeField::Ports => links("/ports"),
            NodeField::States => links("/states"),
            NodeField::Portgroups => links("/portgroups"),
            NodeField::Volume => links("/volume"),
            _ => return None,
        })
    }

    /// What the node itself says, and what nobody here knows.
    fn known(&self, field: NodeField) -> Value {
        let NodeParts { node, machine, driver, holder: _, conductor: _ } = self.parts;
        let Node {
            id,
            name: _,   // shown_name
            driver: _, // as resolved, in the parts
            driver_info,
            driver_secrets,
            properties,
            instance_info,
            extra,
            details: _, // described
            group,
            state,
            target,
            since: _, // moved_at
            operation: _,
            power: _, // worked
            controls,
            last_error,
            maintenance,
            protected,
            disable_power_off,
            automated_clean,
            retire_declared: _, // is_retired
            held_report: _,
            health,
            verified_at: _,
            inspected_at: _,
            created_at: _, // worked
            epoch: _,
            history: _,
        } = node;
        let fault = maintenance.as_ref().and_then(|maintenance| maintenance.fault);
        match field {
            NodeField::Uuid => json!(id.to_string()),
            NodeField::Name => json!(edit::shown_name(node)),
            NodeField::Driver => json!(driver),
            NodeField::DriverInfo => masked_settings(driver_info, driver_secrets.keys()),
            NodeField::Properties => json!(properties),
            NodeField::InstanceInfo => masked_instance(instance_info),
            NodeField::Extra => json!(extra),
            NodeField::ConductorGroup => json!(group),
            NodeField::ProvisionState => state_in(*state, self.version),
            NodeField::TargetProvisionState => target.map_or(Value::Null, |state| state_in(state, self.version)),
            NodeField::LastError => json!(last_error),
            NodeField::Maintenance => json!(maintenance.is_some()),
            NodeField::MaintenanceReason => json!(maintenance.as_ref().and_then(reason_of)),
            NodeField::Fault => json!(fault.map(|fault| fault.as_str())),
            NodeField::Protected => json!(protected.is_some()),
            NodeField::ProtectedReason => json!(protected.as_ref().filter(|reason| !reason.is_empty())),
            NodeField::DisablePowerOff => json!(disable_power_off),
            NodeField::AutomatedClean => json!(automated_clean),
            NodeField::Retired => json!(edit::is_retired(node, machine)),
            NodeField::Health => json!(health.map(|health| health.as_str())),
            NodeField::ConsoleEnabled => json!(controls.console_enabled),
            NodeField::BootMode => json!(controls.boot_mode.map(BootMode::as_str)),
            NodeField::SecureBoot => json!(controls.secure_boot),
            NodeField::RaidConfig => json!({}),
            // What the other two have answered.
            _ => Value::Null,
        }
    }
}

fn reason_of(maintenance: &Maintenance) -> Option<&String> {
    maintenance.reason.as_ref()
}

/// A state in the words a version knows.
pub(super) fn state_in(state: State, version: Version) -> Value {
    match state {
        State::Available if !version.has(2) => Value::Null,
        State::InspectWait if !version.has(39) => json!(State::Inspecting.wire()),
        other => json!(other.wire()),
    }
}

fn masked_settings<'a>(settings: &Object, secrets: impl Iterator<Item = &'a String>) -> Value {
    let mut all: Map<String, Value> = settings.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    all.extend(secrets.map(|key| (key.clone(), json!(MASK))));
    Value::Object(all)
}

pub(super) fn masked_instance(info: &Object) -> Value {
    let mask = |(key, value): (&String, &Value)| {
        let value = if edit::hides_instance(key, value) { json!(MASK) } else { value.clone() };
        (key.clone(), value)
    };
    Value::Object(info.iter().map(mask).collect())
}

/// The step under way, if the work is of one of these kinds.
fn step_of(operation: Option<&Operation>, of: &[Work]) -> Value {
    let running = operation.filter(|operation| of.contains(&operation.work) && operation.phase != Phase::Ready);
    running.and_then(|operation| operation.steps.get(operation.index)).map_or_else(|| json!({}), step)
}

fn step(step: &Step) -> Value {
    let Step { interface, name, place: _, args, priority, abortable, idempotent: _, disturbs: _ } = step;
    json!({ "interface": interface.as_str(), "step": name, "priority": priority, "abortable": abortable, "args": args })
}

/// What clients look up in `driver_internal_info`, from what is recorded.
fn internal(operation: Option<&Operation>, powered_at: Option<jiff::Timestamp>) -> Value {
    let mut info = Map::new();
    if let Some(at) = powered_at {
        info.insert("last_power_state_change".to_owned(), json!(time(at)));
    }
    let Some(operation) = operation else { return Value::Object(info) };
    let flow = match operation.work {
        Work::AutomatedClean | Work::ManualClean => Some("clean"),
        Work::Deploy => Some("deploy"),
        Work::Service => Some("service"),
        Work::Verify => Some("verify"),
        _ => None,
    };
    if let Some(flow) = flow {
        info.insert(format!("{flow}_steps"), operation.steps.iter().map(step).collect());
        info.insert(format!("{flow}_step_index"), json!(operation.index));
    }
    if let Some(ramdisk) = &operation.ramdisk {
        let RamdiskContact { url, heard_at, token, version, verify_ca, managers, command } = ramdisk;
        info.insert("agent_url".to_owned(), json!(url));
        info.insert("agent_last_heartbeat".to_owned(), json!(heard_at.map(time)));
        let more = [
            ("agent_secret_token", token.as_ref().map(|_| json!(MASK))),
            ("agent_version", version.as_ref().map(|version| json!(version))),
            ("agent_verify_ca", verify_ca.as_ref().map(|pem| json!(pem))),
            ("hardware_manager_version", (!managers.is_empty()).then(|| json!(managers))),
            ("agent_command", command.as_ref().map(|command| json!(command))),
        ];
        info.extend(more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    }
    Value::Object(info)
}

#[cfg(test)]
mod tests {
    use sabakan_domain::{
        provision::{
            ids::{AllocationId, ChassisId},
            node::NodeId,
        },
        words::Serial,
    };

    use super::{super::Refused, *};

    fn node() -> Node {
        let name = Serial::new("n1").expect("a name");
        let mut node = Node::implied(NodeId(7), name, "2026-11-15T00:00:00Z".parse().expect("a time"));
        node.driver_info.insert("redfish_address".to_owned(), json!("10.0.0.1"));
        node.driver_secrets.insert("redfish_password".to_owned(), "sealed".to_owned());
        node.instance_info.insert("configdrive".to_owned(), json!("H4sI"));
        node.instance_info.insert("image_source".to_owned(), json!("http://x/i?temp_url_sig=1"));
        node
    }

    fn answer(version: u16, fields: &[NodeField]) -> Value {
        let node = node();
        let parts =
            NodeParts { node: &node, machine: None, driver: Some("redfish"), holder: None, conductor: Some("c1") };
        let answer = NodeAnswer { parts, fields, version: Version(version), base: "http://h:1" };
        serde_json::to_value(answer).expect("serialises")
    }

    #[test]
    fn a_version_has_the_members_it_came_with() {
        let of = |version| NodeField::all_of(Version(version)).len();
        assert_eq!(of(115), NodeField::ALL.len());
        assert!(of(1) < of(31) && of(31) < of(90) && of(90) < of(115));
        let first = answer(1, &NodeField::all_of(Version(1)));
        let keys: Vec<&String> = first.as_object().expect("an object").keys().collect();
        assert!(!keys.contains(&&"name".to_owned()) && keys.contains(&&"uuid".to_owned()), "{keys:?}");
        for field in NodeField::ALL {
            assert_eq!(NodeField::parse(field.name()), Some(*field));
        }
    }

    #[test]
    fn every_member_of_a_full_node_is_shown() {
        let (mut node, text, now) = (node(), || Some("x".to_owned()), jiff::Timestamp::UNIX_EPOCH);
        node.details = Details {
            resource_class: text(),
            owner: text(),
            lessee: text(),
            shard: text(),
            description: text(),
            instance_uuid: text(),
            instance_name: text(),
            allocation: Some(AllocationId(1)),
            parent: Some(NodeId(1)),
            chassis: Some(ChassisId(1)),
            retired_reason: text(),
            edited_at: Some(now),
            ..Details::default()
        };
        node.state = State::Inspecting;
        node.target = Some(State::Manageable);
        node.since = now;
        node.power.state = Some(sabakan_domain::provision::power::PowerState::On);
        node.power.action = Some(sabakan_domain::provision::node::PowerAction {
            target: sabakan_domain::provision::power::PowerTarget::Off,
            asked_by: "me".to_owned(),
            asked_at: now,
            deadline: now,
            started: false,
        });
        node.last_error = text();
        let fault = Some(sabakan_domain::provision::node::Fault::Clean);
        node.maintenance = Some(Maintenance { reason: text(), fault });
        node.protected = text();
        node.automated_clean = Some(true);
        node.health = sabakan_domain::provision::hardware::HardwareHealth::ALL.first().copied();
        node.inspected_at = Some(now);
        node.operation = Some(Operation {
            id: "o".to_owned(),
            work: Work::Inspect,
            asked_by: "me".to_owned(),
            asked_at: now,
            steps: Vec::new(),
            index: 0,
            phase: Phase::Ready,
            deadline: None,
            before: None,
            ramdisk: None,
            abort_by: None,
            power_forced_by: None,
            origin: None,
        });
        let parts = NodeParts {
            node: &node,
            machine: None,
            driver: Some("redfish"),
            holder: Some("c1"),
            conductor: Some("c1"),
        };
        let answer = NodeAnswer { parts, fields: NodeField::ALL, version: Version::MAX, base: "http://h:1" };
        let answer = serde_json::to_value(answer).expect("serialises");
        let absent: Vec<&str> = NodeField::ALL.iter().map(|f| f.name()).filter(|name| answer[name].is_null()).collect();
        assert_eq!(absent, ["boot_mode", "secure_boot"]);
    }

    #[test]
    fn secrets_are_masked() {
        let answer = answer(115, NodeField::ALL);
        assert_eq!(answer["driver_info"], json!({ "redfish_address": "10.0.0.1", "redfish_password": MASK }));
        assert_eq!(answer["instance_info"], json!({ "configdrive": MASK, "image_source": MASK }));
        assert!(!answer.to_string().contains("sealed") && !answer.to_string().contains("H4sI"));
    }

    #[test]
    fn older_versions_know_fewer_states() {
        assert_eq!(state_in(State::Available, Version(1)), Value::Null);
        assert_eq!(state_in(State::InspectWait, Version(38)), json!("inspecting"));
        assert_eq!(state_in(State::InspectWait, Version(39)), json!("inspect wait"));
        assert_eq!(state_in(State::VerifyFailed, Version(115)), json!("enroll"));
    }

    #[test]
    fn chosen_members_come_in_the_order_asked_for_and_with_links() {
        let names = |text: &str, version| {
            NodeField::chosen(text, Version(version))
                .map(|fields| fields.iter().map(|field| field.name()).collect::<Vec<_>>())
        };
        assert_eq!(names("name,uuid", 115), Ok(vec!["name", "uuid", "links"]));
        assert!(matches!(names("nope", 115), Err(Refused::Invalid(_))));
        assert!(matches!(names("owner", 30), Err(Refused::Version(_))));
        assert!(matches!(names("uuid", 7), Err(Refused::Version(_))));
    }
}
