//! Writes what a query selected straight from domain values to JSON. A resolver only leaves what it found in a slot, together with
//! the selection; the answer is written from there, machine by machine. Nothing of it can fail: every field is there and has a value.
//!
//! One table per object type ([`Object::FIELDS`]) is both the schema that is published and the way its fields are written.

use std::{
    borrow::Cow,
    marker::PhantomData,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_graphql::{
    CacheControl, ContextSelectionSet, OutputType, Positioned, ServerError, ServerResult, Value,
    context::QueryEnvInner,
    parser::types::{Field as Selected, Selection, SelectionSet},
    registry::{Deprecation, MetaField, MetaType, MetaTypeId, Registry},
};
use jiff::Timestamp;
use sabakan_domain::machine::{Machine, Status};
use sabakan_service::FoundMachines;

use crate::objects::{MachineObject, StatusObject};

/// An object type of the schema, seen through a domain value.
pub trait Object: Send + Sync + 'static {
    /// What its fields are read from.
    type Of: ?Sized;
    /// Its name in the schema.
    const NAME: &'static str;
    /// What it is.
    const ABOUT: &'static str;
    /// Every field, in the order of the schema.
    const FIELDS: &'static [Field<Self::Of>];
}

/// A field of an object type.
pub struct Field<T: ?Sized> {
    /// Its name.
    pub name: &'static str,
    /// Its type, as the schema writes it.
    pub ty: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Puts the type into a schema.
    pub register: fn(&mut Registry),
    /// Selects within it; `None`: it is a leaf.
    pub choose: Option<Choose>,
    /// Writes its value.
    pub write: fn(&T, Timestamp, &[Chosen], &mut Vec<u8>),
}

type Choose = fn(&QueryEnvInner, &SelectionSet, &mut Vec<Chosen>);

/// A field that was selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The name the caller wants, as JSON, with its colon.
    key: Box<[u8]>,
    /// Which of [`Object::FIELDS`]; `None`: the name of the type itself.
    field: Option<usize>,
    inner: Vec<Chosen>,
}

/// Adds a selection to what was chosen of an object. Fields that come twice are one field with both selections, as the language says;
/// that they agree was validated, and fields to skip are gone.
pub fn choose<O: Object>(query: &QueryEnvInner, set: &SelectionSet, chosen: &mut Vec<Chosen>) {
    for selection in &set.items {
        match &selection.node {
            Selection::Field(selected) => choose_field::<O>(query, &selected.node, chosen),
            Selection::InlineFragment(fragment) => {
                let condition = fragment.node.type_condition.as_ref();
                if condition.is_none_or(|condition| condition.node.on.node == O::NAME) {
                    choose::<O>(query, &fragment.node.selection_set.node, chosen);
                }
            }
            Selection::FragmentSpread(spread) => {
                let fragment = query.fragments.get(&spread.node.fragment_name.node);
                if let Some(fragment) = fragment.filter(|f| f.node.type_condition.node.on.node == O::NAME) {
                    choose::<O>(query, &fragment.node.selection_set.node, chosen);
                }
            }
        }
    }
}

fn choose_field<O: Object>(query: &QueryEnvInner, selected: &Selected, chosen: &mut Vec<Chosen>) {
    // Only `__typename` is not in the table; the validator knows no other.
    let field = O::FIELDS.iter().position(|field| field.name == selected.name.node.as_str());
    let mut key = serde_json::to_vec(selected.response_key().node.as_str()).expect("a text serialises");
    key.push(b':');
    let at = chosen.iter().position(|earlier| *earlier.key == *key).unwrap_or_else(|| {
        chosen.push(Chosen { key: key.into(), field, inner: Vec::new() });
        chosen.len() - 1
    });
    if let Some(choose) = field.and_then(|field| O::FIELDS[field].choose) {
        choose(query, &selected.selection_set.node, &mut chosen[at].inner);
    }
}

/// Writes what was chosen of an object.
pub fn write<O: Object>(of: &O::Of, now: Timestamp, chosen: &[Chosen], out: &mut Vec<u8>) {
    out.push(b'{');
    for (n, Chosen { key, field, inner }) in chosen.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        out.extend_from_slice(key);
        match field {
            Some(field) => (O::FIELDS[*field].write)(of, now, inner, out),
            None => write_json(O::NAME, out),
        }
    }
    out.push(b'}');
}

/// Writes a list of objects.
pub fn write_list<'a, O: Object<Of: 'a>>(
    list: impl IntoIterator<Item = &'a O::Of>,
    now: Timestamp,
    chosen: &[Chosen],
    out: &mut Vec<u8>,
) {
    out.push(b'[');
    for (n, of) in list.into_iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        write::<O>(of, now, chosen, out);
    }
    out.push(b']');
}

/// Writes a text, a number, or a list of them.
pub fn write_json<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("texts and numbers serialise into memory");
}

/// What a root field found.
#[derive(Debug, Clone)]
pub enum Found {
    /// Machines, one after the other.
    Machines(Arc<FoundMachines>),
    /// One machine.
    Machine(Arc<Machine>),
    /// The status of a machine.
    Status(Status),
}

/// What a root field found and what of it goes into the answer.
#[derive(Debug, Clone)]
pub struct Slot {
    name: String,
    /// What was found.
    pub found: Found,
    /// What was selected of it.
    pub chosen: Vec<Chosen>,
}

/// The slots of one request. In the data of the library the number of a slot stands for its content; no root field of ours is a
/// number, so that nothing else can be taken for one.
#[derive(Debug, Default)]
pub struct Slots(Mutex<Vec<Slot>>);

impl Slots {
    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes everything out.
    pub fn take(&self) -> Vec<Slot> {
        std::mem::take(&mut *self.lock())
    }

    /// Leaves what was found. A root field that comes twice in a query is resolved twice but answered once, from what was found first.
    fn put<O: Object>(&self, ctx: &ContextSelectionSet<'_>, field: &Selected, found: Found) -> Value {
        let (mut slots, name) = (self.lock(), field.response_key().node.as_str());
        let at = slots.iter().position(|slot| slot.name == name).unwrap_or_else(|| {
            slots.push(Slot { name: name.to_owned(), found, chosen: Vec::new() });
            slots.len() - 1
        });
        choose::<O>(ctx.query_env, &ctx.item.node, &mut slots[at].chosen);
        Value::from(at)
    }
}

/// An object in the schema whose value is left in a slot.
pub struct One<O>(Found, PhantomData<O>);

/// A list of objects in the schema whose value is left in a slot.
pub struct Many<O>(Found, PhantomData<O>);

impl One<MachineObject> {
    /// One machine.
    pub fn machine(machine: Arc<Machine>) -> Self {
        One(Found::Machine(machine), PhantomData)
    }
}

impl One<StatusObject> {
    /// The status of a machine.
    pub fn status(status: Status) -> Self {
        One(Found::Status(status), PhantomData)
    }
}

impl Many<MachineObject> {
    /// Machines.
    pub fn machines(machines: Arc<FoundMachines>) -> Self {
        Many(Found::Machines(machines), PhantomData)
    }
}

impl<O: Object> One<O> {
    /// Puts the type, and those of its fields, into a schema.
    pub fn register(registry: &mut Registry) {
        registry.create_output_type::<Self, _>(MetaTypeId::Object, |registry| {
            O::FIELDS.iter().for_each(|field| (field.register)(registry));
            MetaType::Object {
                name: O::NAME.to_owned(),
                description: Some(O::ABOUT.to_owned()),
                fields: O::FIELDS.iter().map(|field| (field.name.to_owned(), meta(field))).collect(),
                cache_control: CacheControl::default(),
                extends: false,
                shareable: false,
                resolvable: true,
                inaccessible: false,
                interface_object: false,
                tags: Vec::new(),
                keys: None,
                visible: None,
                is_subscription: false,
                rust_typename: Some(std::any::type_name::<Self>()),
                directive_invocations: Vec::new(),
                requires_scopes: Vec::new(),
            }
        });
    }
}

fn meta<T: ?Sized>(field: &Field<T>) -> MetaField {
    MetaField {
        name: field.name.to_owned(),
        description: Some(field.about.to_owned()),
        args: Default::default(),
        ty: field.ty.to_owned(),
        deprecation: Deprecation::NoDeprecated,
        cache_control: CacheControl::default(),
        external: false,
        requires: None,
        provides: None,
        visible: None,
        shareable: false,
        inaccessible: false,
        tags: Vec::new(),
        override_from: None,
        compute_complexity: None,
        directive_invocations: Vec::new(),
        requires_scopes: Vec::new(),
    }
}

impl<O: Object> OutputType for One<O> {
    fn type_name() -> Cow<'static, str> {
        O::NAME.into()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        One::<O>::register(registry);
        Self::qualified_type_name()
    }

    async fn resolve(&self, ctx: &ContextSelectionSet<'_>, field: &Positioned<Selected>) -> ServerResult<Value> {
        put::<O>(ctx, field, &self.0)
    }
}

impl<O: Object> OutputType for Many<O> {
    fn type_name() -> Cow<'static, str> {
        format!("[{}!]", O::NAME).into()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        One::<O>::register(registry);
        Self::qualified_type_name()
    }

    async fn resolve(&self, ctx: &ContextSelectionSet<'_>, field: &Positioned<Selected>) -> ServerResult<Value> {
        put::<O>(ctx, field, &self.0)
    }
}

fn put<O: Object>(ctx: &ContextSelectionSet<'_>, field: &Positioned<Selected>, found: &Found) -> ServerResult<Value> {
    let slots = ctx.data::<Arc<Slots>>().map_err(|error| ServerError::new(error.message, Some(field.pos)))?;
    Ok(slots.put::<O>(ctx, &field.node, found.clone()))
}
