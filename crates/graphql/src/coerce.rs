//! Fits values to the types of the schema: variables leniently, as clients of this registry send them, and values in the query text
//! strictly. The library checks less than that (it takes texts for enumerations, anything for an input object, and a variable of any
//! type) and coerces nothing, so it only sees values that passed here.
//!
//! Lenient means: one value where a list belongs, a whole number written as a text, and names of states in any case.

use async_graphql::{
    Name, PathSegment, Pos, Positioned, Value as Const, Variables,
    indexmap::IndexMap,
    parser::types::{
        BaseType, ExecutableDocument, Field, OperationDefinition, Selection, SelectionSet, Type, VariableDefinition,
    },
};
use async_graphql_value::Value;
use sabakan_domain::limits::{QUERY_LABELS_MAX, QUERY_VALUES_MAX};

use crate::{
    input::MachineState,
    problem::{Problem, shown},
};

/// Fields of the input objects with their types. A test compares it with the schema.
const OBJECTS: &[(&str, &[(&str, &str)])] = &[
    (
        "MachineParams",
        &[
            ("labels", "[LabelInput!]"),
            ("racks", "[Int!]"),
            ("roles", "[String!]"),
            ("states", "[MachineState!]"),
            ("minDaysBeforeRetire", "Int"),
        ],
    ),
    ("LabelInput", &[("name", "String!"), ("value", "String!")]),
];

/// Arguments of fields and directives with their types. The same test looks at it.
const ARGUMENTS: &[(&str, &str, &str)] = &[
    ("machine", "serial", "ID!"),
    ("searchMachines", "having", "MachineParams"),
    ("searchMachines", "notHaving", "MachineParams"),
    ("setMachineState", "serial", "ID!"),
    ("setMachineState", "state", "MachineState!"),
    ("skip", "if", "Boolean!"),
    ("include", "if", "Boolean!"),
];

const SCALARS: &[&str] = &["Int", "Float", "String", "Boolean", "ID"];

/// How values are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Written in the query text.
    Strict,
    /// Sent as a variable.
    Lenient,
}

/// Checks every value that stands in the query text, every type a variable is declared with, and that variables stand where their
/// type belongs.
pub fn check_literals(document: &ExecutableDocument) -> Result<(), Problem> {
    for (_, operation) in document.operations.iter() {
        let declared = &operation.node.variable_definitions;
        for definition in declared {
            let ty = &definition.node.var_type;
            check_type(&ty.node).map_err(|problem| problem.at(ty.pos))?;
            if let Some(default) = &definition.node.default_value {
                Walk::strict(default.pos, &[]).fit(default.node.clone().into_value(), &ty.node)?;
            }
        }
        Literals { document, declared }.check(&operation.node.selection_set.node)?;
    }
    // Also those nobody uses. Which variables they mean depends on who uses them.
    let unused = Literals { document, declared: &[] };
    document.fragments.values().try_for_each(|fragment| unused.check(&fragment.node.selection_set.node))
}

/// The variables of an operation as the schema wants them; those that are not sent get their default, because the library forgets
/// the defaults of variables used in directives. Variables that are not declared are left out.
pub fn coerce_variables(operation: &OperationDefinition, mut sent: Variables) -> Result<Variables, Problem> {
    let mut fitted = Variables::default();
    for definition in &operation.variable_definitions {
        let (name, ty) = (&definition.node.name.node, &definition.node.var_type.node);
        let mut walk = Walk::lenient(definition.pos, name);
        let value = match (sent.remove(name), &definition.node.default_value) {
            (Some(value), _) => walk.fit(value.into_value(), ty)?,
            (None, Some(default)) => default.node.clone().into_value(),
            (None, None) if ty.nullable => continue,
            (None, None) => return Err(walk.problem("must be defined")),
        };
        let value = value.into_const().expect("neither JSON nor a default holds variables");
        fitted.insert(name.clone(), value);
    }
    Ok(fitted)
}

fn check_type(ty: &Type) -> Result<(), Problem> {
    match &ty.base {
        BaseType::List(inner) => check_type(inner),
        BaseType::Named(name) => {
            let name = name.as_str();
            let known = SCALARS.contains(&name) || name == MachineState::TYPE || fields_of(name).is_some();
            if known { Ok(()) } else { Err(Problem::new(format!("{name:?} is no type that a variable can have"))) }
        }
    }
}

/// The values of one operation, with the variables it declares.
struct Literals<'a> {
    document: &'a ExecutableDocument,
    declared: &'a [Positioned<VariableDefinition>],
}

impl Literals<'_> {
    fn check(&self, set: &SelectionSet) -> Result<(), Problem> {
        for selection in &set.items {
            for directive in selection.node.directives() {
                self.check_arguments(&directive.node.name.node, &directive.node.name.node, &directive.node.arguments)?;
            }
            match &selection.node {
                Selection::Field(field) => {
                    let Field { name, arguments, selection_set, .. } = &field.node;
                    self.check_arguments(&name.node, &field.node.response_key().node, arguments)?;
                    self.check(&selection_set.node)?;
                }
                Selection::InlineFragment(fragment) => self.check(&fragment.node.selection_set.node)?,
                Selection::FragmentSpread(spread) => {
                    if let Some(fragment) = self.document.fragments.get(&spread.node.fragment_name.node) {
                        self.check(&fragment.node.selection_set.node)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Arguments of a field or directive. What is unknown, the validator says.
    fn check_arguments(&self, of: &Name, shown: &Name, arguments: &[Argument]) -> Result<(), Problem> {
        for (name, value) in arguments {
            let known = ARGUMENTS.iter().find(|(owner, argument, _)| *owner == of && *argument == name.node);
            let Some((_, _, ty)) = known else { continue };
            let mut walk = Walk::strict(value.pos, self.declared);
            walk.path = vec![PathSegment::Field(shown.to_string())];
            walk.inside(&name.node, |walk| walk.fit(value.node.clone(), &parsed(ty)))?;
        }
        Ok(())
    }
}

type Argument = (Positioned<Name>, Positioned<Value>);

/// Whether what a variable holds always fits a place. With a default it is not null unless null is sent, which is judged then.
fn is_allowed(variable: &VariableDefinition, place: &Type) -> bool {
    fn fits(given: &Type, place: &Type) -> bool {
        let same = match (&given.base, &place.base) {
            (BaseType::Named(given), BaseType::Named(place)) => given == place,
            (BaseType::List(given), BaseType::List(place)) => fits(given, place),
            _ => false,
        };
        same && (place.nullable || !given.nullable)
    }
    let has_default = variable.default_value.as_ref().is_some_and(|default| default.node != Const::Null);
    let place = Type { nullable: place.nullable || has_default, ..place.clone() };
    fits(&variable.var_type.node, &place)
}

fn parsed(ty: &str) -> Type {
    Type::new(ty).expect("the tables hold types")
}

fn fields_of(object: &str) -> Option<&'static [(&'static str, &'static str)]> {
    OBJECTS.iter().find(|(name, _)| *name == object).map(|(_, fields)| *fields)
}

/// A value on its way through its type.
struct Walk<'a> {
    manner: Manner,
    place: Pos,
    path: Vec<PathSegment>,
    /// Variables that may stand for a value.
    declared: &'a [Positioned<VariableDefinition>],
}

impl<'a> Walk<'a> {
    fn strict(place: Pos, declared: &'a [Positioned<VariableDefinition>]) -> Walk<'a> {
        Walk { manner: Manner::Strict, place, path: Vec::new(), declared }
    }

    fn lenient(place: Pos, variable: &Name) -> Walk<'a> {
        let path = vec![PathSegment::Field("variable".to_owned()), PathSegment::Field(variable.to_string())];
        Walk { manner: Manner::Lenient, place, path, declared: &[] }
    }

    fn problem(&self, message: impl Into<String>) -> Problem {
        Problem { path: self.path.clone(), ..Problem::new(message).at(self.place) }
    }

    fn inside<T>(&mut self, name: &str, work: impl FnOnce(&mut Walk<'a>) -> Result<T, Problem>) -> Result<T, Problem> {
        self.path.push(PathSegment::Field(name.to_owned()));
        let done = work(self);
        self.path.pop();
        done
    }

    /// The value as the type wants it.
    fn fit(&mut self, value: Value, ty: &Type) -> Result<Value, Problem> {
        match (value, &ty.base) {
            (Value::Variable(name), _) => self.fit_variable(name, ty),
            (Value::Null, _) if ty.nullable => Ok(Value::Null),
            (Value::Null, _) => Err(self.problem("cannot be null")),
            (Value::List(items), BaseType::List(inner)) => self.fit_list(items, inner),
            (single, BaseType::List(inner)) => Ok(Value::List(vec![self.fit(single, inner)?])),
            (value, BaseType::Named(name)) if name == MachineState::TYPE => self.fit_state(value),
            (value, BaseType::Named(name)) => match fields_of(name) {
                Some(fields) => self.fit_object(value, name, fields),
                None => self.fit_scalar(value, name),
            },
        }
    }

    /// Variables nobody declared, the validator names.
    fn fit_variable(&self, name: Name, ty: &Type) -> Result<Value, Problem> {
        let declared = self.declared.iter().find(|definition| definition.node.name.node == name);
        match declared.filter(|definition| !is_allowed(&definition.node, ty)) {
            Some(definition) => {
                let given = &definition.node.var_type.node;
                Err(self.problem(format!("variable ${name} of type {given} stands where {ty} belongs")))
            }
            None => Ok(Value::Variable(name)),
        }
    }

    fn fit_list(&mut self, items: Vec<Value>, inner: &Type) -> Result<Value, Problem> {
        let max = if inner.base == parsed("LabelInput").base { QUERY_LABELS_MAX } else { QUERY_VALUES_MAX };
        if items.len() > max {
            return Err(self.problem(format!("has {} values, at most {max} are allowed", items.len())));
        }
        let mut fitted = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            self.path.push(PathSegment::Index(index));
            fitted.push(self.fit(item, inner)?);
            self.path.pop();
        }
        Ok(Value::List(fitted))
    }

    fn fit_object(&mut self, value: Value, name: &str, fields: &[(&str, &str)]) -> Result<Value, Problem> {
        let Value::Object(mut given) = value else { return Err(self.unfit(value, name)) };
        let mut fitted = IndexMap::new();
        for (field, ty) in fields {
            let (key, ty) = (Name::new(field), parsed(ty));
            match given.shift_remove(&key) {
                Some(value) => {
                    let value = self.inside(field, |walk| walk.fit(value, &ty))?;
                    fitted.insert(key, value);
                }
                None if ty.nullable => {}
                None => return self.inside(field, |walk| Err(walk.problem("must be defined"))),
            }
        }
        match given.keys().next() {
            Some(unknown) => self.inside(unknown, |walk| Err(walk.problem(format!("unknown field of {name}")))),
            None => Ok(Value::Object(fitted)),
        }
    }

    fn fit_state(&self, value: Value) -> Result<Value, Problem> {
        let mut names = MachineState::names().map(|(_, name)| name);
        let found = match (&value, self.manner) {
            (Value::Enum(given), _) => names.find(|name| name == given.as_str()),
            (Value::String(given), Manner::Lenient) => names.find(|name| name.eq_ignore_ascii_case(given)),
            _ => None,
        };
        match found {
            Some(name) => Ok(Value::Enum(Name::new(name))),
            None => Err(self.unfit(value, MachineState::TYPE).with("type", "INVALID_STATE_NAME")),
        }
    }

    fn fit_scalar(&self, value: Value, name: &str) -> Result<Value, Problem> {
        let lenient = self.manner == Manner::Lenient;
        match (name, value) {
            ("Int", Value::Number(number)) if number.is_i64() => Ok(Value::Number(number)),
            ("Int", Value::String(text)) if lenient => match text.parse::<i64>() {
                Ok(number) => Ok(Value::Number(number.into())),
                Err(_) => Err(self.unfit(Value::String(text), name)),
            },
            ("Float", value @ Value::Number(_)) => Ok(value),
            ("String" | "ID", value @ Value::String(_)) => Ok(value),
            ("Boolean", value @ Value::Boolean(_)) => Ok(value),
            ("ID", Value::Number(number)) if number.is_i64() => Ok(Value::String(number.to_string())),
            (_, value) => Err(self.unfit(value, name)),
        }
    }

    fn unfit(&self, value: Value, name: &str) -> Problem {
        let value = value.into_const_with(|_| Ok::<_, ()>(Const::Null)).unwrap_or_default();
        self.problem(format!("{} is not a valid {name}", shown(&value)))
    }
}

#[cfg(test)]
mod tests;
