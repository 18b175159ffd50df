//! Sensors, in both generations of the standard: Thermal and Power with everything in one answer each, or one resource per sensor.

use sabakan_domain::provision::hardware::{Sensor, SensorKind};
use serde_json::Value;

use super::{
    Controller,
    inspect::is_fatal,
    resources::{link_of, text},
};
use crate::DriverError;

/// Where readings stand in Thermal and Power: the list, the member with the value, and what it is.
const READINGS: &[(&str, &[&str], SensorKind)] = &[
    ("Temperatures", &["ReadingCelsius"], SensorKind::Temperature),
    ("Fans", &["Reading", "ReadingRPM"], SensorKind::Fan),
    ("Voltages", &["ReadingVolts"], SensorKind::Voltage),
    ("PowerControl", &["PowerConsumedWatts"], SensorKind::Power),
    ("PowerSupplies", &["PowerInputWatts", "LastPowerOutputWatts"], SensorKind::Power),
];

impl Controller {
    pub(super) async fn read_sensors(&self) -> Result<Vec<Sensor>, DriverError> {
        let system = self.system().await?.body;
        let mut found = Vec::new();
        let mut failure = None;
        let mut answered = false;
        for link in self.chassis_links(&system).await? {
            let chassis = match self.connection.get("the chassis", &link).await {
                Ok(chassis) => chassis,
                Err(error) if is_fatal(&error) => return Err(error),
                Err(error) => {
                    failure = Some(error);
                    continue;
                }
            };
            let single = ["Thermal", "Power"].iter().any(|name| link_of(&chassis[*name]).is_some());
            let reads: &[&str] = if single { &["Thermal", "Power"] } else { &["Sensors", "ThermalSubsystem"] };
            for name in reads.iter().filter(|name| link_of(&chassis[**name]).is_some()) {
                match self.chassis_sensors(&chassis, name).await {
                    Ok(sensors) => {
                        answered = true;
                        found.extend(sensors);
                    }
                    Err(error) if is_fatal(&error) => return Err(error),
                    Err(error) => failure = Some(error),
                }
                // The subsystem repeats what the list of sensors said.
                if !single && !found.is_empty() {
                    break;
                }
            }
        }
        match failure {
            Some(error) if !answered => Err(error),
            _ => Ok(found),
        }
    }

    async fn chassis_sensors(&self, chassis: &Value, name: &str) -> Result<Vec<Sensor>, DriverError> {
        Ok(match name {
            "Sensors" => self.connection.members(chassis, name).await?.iter().filter_map(sensor_of).collect(),
            "ThermalSubsystem" => {
                let subsystem = self.connection.follow(chassis, name).await?;
                let metrics = self.connection.follow(&subsystem, "ThermalMetrics").await?;
                listed(&metrics["TemperatureReadingsCelsius"], &["Reading"], SensorKind::Temperature, "DeviceName")
            }
            _ => {
                let all = self.connection.follow(chassis, name).await?;
                let read = |(list, keys, kind): &(&str, &[&str], SensorKind)| listed(&all[*list], keys, *kind, "Name");
                READINGS.iter().flat_map(read).collect()
            }
        })
    }
}

fn listed(list: &Value, keys: &[&str], kind: SensorKind, name: &str) -> Vec<Sensor> {
    let present = list.as_array().into_iter().flatten().filter(|entry| entry["Status"]["State"] != "Absent");
    let read = |entry: &Value| {
        let value = keys.iter().find_map(|key| entry[*key].as_f64())?;
        let name = [name, "MemberId", "DataSourceUri"].iter().find_map(|key| text(&entry[*key]))?;
        Some(Sensor { name, kind, value })
    };
    present.filter_map(read).collect()
}

fn sensor_of(sensor: &Value) -> Option<Sensor> {
    if sensor["Status"]["State"] == "Absent" {
        return None;
    }
    let kind = match sensor["ReadingType"].as_str().unwrap_or_default() {
        "Temperature" => SensorKind::Temperature,
        "Rotational" => SensorKind::Fan,
        "Voltage" => SensorKind::Voltage,
        "Power" => SensorKind::Power,
        "Percent" if sensor["PhysicalContext"] == "Fan" => SensorKind::Fan,
        _ => SensorKind::Other,
    };
    let name = text(&sensor["Name"]).or_else(|| text(&sensor["Id"]))?;
    Some(Sensor { name, kind, value: sensor["Reading"].as_f64()? })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sensors_without_a_reading_are_left_out() {
        let fans = json!([
            { "Name": "Fan 1", "Reading": 2100 },
            { "Name": "Fan 2", "Reading": null },
            { "Name": "Fan 3", "Reading": 0, "Status": { "State": "Absent" } },
        ]);
        let found = listed(&fans, &["Reading", "ReadingRPM"], SensorKind::Fan, "Name");
        assert_eq!(found, [Sensor { name: "Fan 1".to_owned(), kind: SensorKind::Fan, value: 2100.0 }]);
    }

    #[test]
    fn single_sensors_have_a_kind() {
        for (kind, context, expected) in [
            ("Temperature", "CPU", SensorKind::Temperature),
            ("Percent", "Fan", SensorKind::Fan),
            ("Percent", "CPU", SensorKind::Other),
            ("Power", "PowerSupply", SensorKind::Power),
        ] {
            let sensor = json!({ "Name": "x", "ReadingType": kind, "PhysicalContext": context, "Reading": 1.5 });
            assert_eq!(sensor_of(&sensor).map(|sensor| sensor.kind), Some(expected), "{kind} {context}");
        }
        assert_eq!(sensor_of(&json!({ "Name": "x", "ReadingType": "Power" })), None);
    }
}
