//! What a query may ask for: the input types of the schema, and what they mean as conditions of a search.

use std::borrow::Cow;

use async_graphql::{
    InputObject, InputType, InputValueError, InputValueResult, Name, Value,
    registry::{Deprecation, MetaEnumValue, MetaType, MetaTypeId, Registry},
};
use jiff::Timestamp;
use sabakan_domain::{
    lifecycle::HealthState,
    machine::Rack,
    query::{Criteria, DaysLeft, LabelCondition, Query},
};

use crate::limits::{SEARCH_COMPLEXITY, VALUES_PER_COMPLEXITY};

/// Conditions of a search. What is null or empty is no condition. Of `having` every condition must hold, of `notHaving` none may.
#[derive(Debug, Clone, Default, InputObject)]
pub struct MachineParams {
    /// Labels. `having`: the machine has all of them. `notHaving`: it has any of them.
    #[graphql(default)]
    pub labels: Option<Vec<LabelInput>>,
    /// The machine is in one of these racks.
    #[graphql(default)]
    pub racks: Option<Vec<i64>>,
    /// The machine has one of these roles.
    #[graphql(default)]
    pub roles: Option<Vec<String>>,
    /// The machine is in one of these states.
    #[graphql(default)]
    pub states: Option<Vec<MachineState>>,
    /// At least so many days are left before the retire date, cut off towards zero; negative when it has passed.
    #[graphql(default)]
    pub min_days_before_retire: Option<i64>,
}

/// A label, name and value.
#[derive(Debug, Clone, PartialEq, Eq, InputObject)]
pub struct LabelInput {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// What a search costs before anything is selected: it may look at every machine, and it looks at every value.
pub fn complexity(having: &Option<MachineParams>, not_having: &Option<MachineParams>) -> usize {
    fn len<T>(list: &Option<Vec<T>>) -> usize {
        list.as_ref().map_or(0, Vec::len)
    }
    let values =
        |params: &MachineParams| len(&params.labels) + len(&params.racks) + len(&params.roles) + len(&params.states);
    let values: usize = [having, not_having].into_iter().flatten().map(values).sum();
    SEARCH_COMPLEXITY + values / VALUES_PER_COMPLEXITY
}

/// What a search means.
pub fn query(having: Option<MachineParams>, not_having: Option<MachineParams>, now: Timestamp) -> Query {
    Query {
        having: criteria(having.unwrap_or_default(), LabelCondition::AllOf, now),
        not_having: criteria(not_having.unwrap_or_default(), LabelCondition::AnyOf, now),
    }
}

fn criteria(params: MachineParams, group: fn(Vec<(String, String)>) -> LabelCondition, now: Timestamp) -> Criteria {
    let MachineParams { labels, racks, roles, states, min_days_before_retire } = params;
    let labels = given(labels).unwrap_or_default();
    Criteria {
        // A number that no rack has, such as -1, is still a condition; nothing meets it.
        racks: given(racks)
            .map(|list| list.into_iter().filter_map(|rack| u32::try_from(rack).ok()).map(Rack).collect()),
        roles: given(roles),
        states: given(states).map(|list| list.into_iter().map(|state| state.0).collect()),
        labels: group(labels.into_iter().map(|label| (label.name, label.value)).collect()),
        days_left: min_days_before_retire.map(|at_least| DaysLeft { at_least, now }),
        ..Criteria::default()
    }
}

/// A list that is a condition: neither null nor empty.
fn given<T>(list: Option<Vec<T>>) -> Option<Vec<T>> {
    list.filter(|list| !list.is_empty())
}

/// A lifecycle state, by the upper-case form of its word. Names come from the domain's own list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineState(pub HealthState);

impl MachineState {
    /// The name of the type in the schema.
    pub const TYPE: &'static str = "MachineState";

    /// Every value in the schema's spelling.
    pub fn names() -> impl Iterator<Item = (HealthState, String)> {
        HealthState::ALL.into_iter().map(|state| (state, state.as_str().to_ascii_uppercase()))
    }

    fn name(self) -> Name {
        Name::new(self.0.as_str().to_ascii_uppercase())
    }

    /// Puts the enumeration into a schema.
    pub fn register(registry: &mut Registry) -> String {
        registry.create_input_type::<MachineState, _>(MetaTypeId::Enum, |_| {
            let value = |(state, name): (HealthState, String)| {
                let value = MetaEnumValue {
                    name: name.clone(),
                    description: Some(state.text().to_owned()),
                    deprecation: Deprecation::NoDeprecated,
                    visible: None,
                    inaccessible: false,
                    tags: Vec::new(),
                    directive_invocations: Vec::new(),
                };
                (name, value)
            };
            MetaType::Enum {
                name: MachineState::TYPE.to_owned(),
                description: Some("Where a machine is in its lifecycle.".to_owned()),
                enum_values: MachineState::names().map(value).collect(),
                visible: None,
                inaccessible: false,
                tags: Vec::new(),
                rust_typename: Some(std::any::type_name::<MachineState>()),
                directive_invocations: Vec::new(),
                requires_scopes: Vec::new(),
            }
        })
    }
}

impl InputType for MachineState {
    type RawValueType = MachineState;

    fn type_name() -> Cow<'static, str> {
        MachineState::TYPE.into()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        MachineState::register(registry)
    }

    fn parse(value: Option<Value>) -> InputValueResult<MachineState> {
        let value = value.unwrap_or_default();
        let Value::Enum(given) = &value else { return Err(InputValueError::expected_type(value)) };
        let found = MachineState::names().find(|(_, name)| name == given.as_str());
        found.map(|(state, _)| MachineState(state)).ok_or_else(|| InputValueError::expected_type(value))
    }

    fn to_value(&self) -> Value {
        Value::Enum(self.name())
    }

    fn as_raw_value(&self) -> Option<&MachineState> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    #[test]
    fn null_and_empty_are_no_condition() {
        let empty = MachineParams {
            labels: Some(vec![]),
            racks: Some(vec![]),
            roles: Some(vec![]),
            states: Some(vec![]),
            min_days_before_retire: None,
        };
        for params in [None, Some(MachineParams::default()), Some(empty)] {
            let query = query(params.clone(), params, now());
            assert_eq!(query.having, Criteria::default());
            assert_eq!(query.not_having, Criteria { labels: LabelCondition::AnyOf(vec![]), ..Criteria::default() });
        }
    }

    #[test]
    fn labels_are_all_to_have_and_any_not_to_have() {
        let label = |name: &str| LabelInput { name: name.into(), value: "1".into() };
        let params = MachineParams {
            labels: Some(vec![label("a"), label("b")]),
            racks: Some(vec![3, -1, 4_294_967_295, 4_294_967_296]),
            roles: Some(vec!["boot".into()]),
            states: Some(vec![MachineState(HealthState::Retired)]),
            min_days_before_retire: Some(-7),
        };
        let pairs = vec![("a".to_owned(), "1".to_owned()), ("b".to_owned(), "1".to_owned())];
        let expected = Criteria {
            labels: LabelCondition::AllOf(pairs.clone()),
            racks: Some(vec![Rack(3), Rack(u32::MAX)]),
            roles: Some(vec!["boot".into()]),
            states: Some(vec![HealthState::Retired]),
            days_left: Some(DaysLeft { at_least: -7, now: now() }),
            ..Criteria::default()
        };
        let query = query(Some(params.clone()), Some(params), now());
        assert_eq!(query.having, expected);
        assert_eq!(query.not_having, Criteria { labels: LabelCondition::AnyOf(pairs), ..expected });
    }

    #[test]
    fn a_rack_that_cannot_be_is_a_condition_nothing_meets() {
        let params = MachineParams { racks: Some(vec![-1]), ..MachineParams::default() };
        assert_eq!(query(Some(params), None, now()).having.racks, Some(vec![]));
    }

    #[test]
    fn values_are_part_of_the_price() {
        let racks = |count: usize| Some(MachineParams { racks: Some(vec![1; count]), ..MachineParams::default() });
        assert_eq!(complexity(&None, &None), 100);
        assert_eq!(complexity(&racks(50), &racks(49)), 100);
        assert_eq!(complexity(&racks(10_000), &racks(10_000)), 300);
    }
}
