//! Logical volumes: reading, creating and deleting them.

use sabakan_domain::provision::hardware::Volume;
use serde_json::{Map, Value, json};

use super::{
    Controller,
    inspect::links,
    quirks::{raid_level, raid_type},
    resources::{link_of, task_of, text},
};
use crate::{DriverError, TaskId};

const GIB: u64 = 1 << 30;

/// A volume to create. `size_gib` absent: as large as its disks allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewVolume {
    pub controller: Option<String>,
    pub name: String,
    pub level: String,
    pub size_gib: Option<u64>,
    pub members: Vec<String>,
}

/// One storage controller as it is.
struct Storage {
    id: String,
    /// Its collection of volumes; absent where it has no volumes.
    volumes: Option<String>,
    /// Links of its drives, with their names.
    drives: Vec<(String, String)>,
}

impl Controller {
    /// All volumes, sorted. Their boot flag is not part of the standard and stays false.
    pub(super) async fn read_volumes(&self, system: &Value) -> Result<Vec<Volume>, DriverError> {
        let mut found = Vec::new();
        for storage in self.connection.members(system, "Storage").await? {
            if link_of(&storage["Volumes"]).is_none() {
                continue;
            }
            let controller = text(&storage["Id"]).unwrap_or_default();
            for volume in self.connection.members(&storage, "Volumes").await? {
                let mut members =
                    links(&volume["Links"]["Drives"]).iter().map(|link| name_of(link)).collect::<Vec<_>>();
                members.sort();
                found.push(Volume {
                    controller: controller.clone(),
                    name: text(&volume["Name"]).or_else(|| text(&volume["Id"])).unwrap_or_default(),
                    level: raid_level(volume["RAIDType"].as_str(), volume["VolumeType"].as_str()).unwrap_or_default(),
                    size_gib: volume["CapacityBytes"].as_u64().unwrap_or_default() / GIB,
                    members,
                    boot: false,
                });
            }
        }
        found.sort();
        Ok(found)
    }

    /// Creates volumes in the order given. Tasks that go on are returned.
    pub(super) async fn create_volumes(
        &self,
        system: &Value,
        wanted: &[NewVolume],
    ) -> Result<Vec<TaskId>, DriverError> {
        let storages = self.storages(system).await?;
        // Everything is checked before the first is created, so that a mistake in the last leaves nothing behind.
        let planned = wanted.iter().map(|volume| plan(&storages, volume)).collect::<Result<Vec<_>, _>>()?;
        let mut tasks = Vec::new();
        for (link, body) in planned {
            let answer = self.connection.post("create a volume", &link, &body).await?;
            tasks.extend(task_of(&answer));
        }
        Ok(tasks)
    }

    /// Deletes every volume made of disks. Disks that are passed through as they are stay: there is nothing to delete.
    pub(super) async fn delete_volumes(&self, system: &Value) -> Result<Vec<TaskId>, DriverError> {
        let mut tasks = Vec::new();
        for storage in self.storages(system).await? {
            let Some(volumes) = storage.volumes else { continue };
            for link in self.connection.member_links("the volumes", &volumes).await? {
                let volume = self.connection.get("a volume", &link).await?;
                let level = raid_level(volume["RAIDType"].as_str(), volume["VolumeType"].as_str());
                if level.as_deref() != Some("JBOD") {
                    tasks.extend(task_of(&self.connection.delete("delete a volume", &link).await?));
                }
            }
        }
        Ok(tasks)
    }

    async fn storages(&self, system: &Value) -> Result<Vec<Storage>, DriverError> {
        let found = self.connection.members(system, "Storage").await?;
        let storage = |storage: &Value| Storage {
            id: text(&storage["Id"]).unwrap_or_default(),
            volumes: link_of(&storage["Volumes"]),
            drives: links(&storage["Drives"]).into_iter().map(|link| (name_of(&link), link)).collect(),
        };
        Ok(found.iter().map(storage).collect())
    }
}

fn name_of(link: &str) -> String {
    link.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
}

/// Where to create a volume, and what to say there.
fn plan(storages: &[Storage], volume: &NewVolume) -> Result<(String, Value), DriverError> {
    let cannot = |reason: String| DriverError::Failed { what: format!("create the volume {}", volume.name), reason };
    let has_all = |storage: &&Storage| {
        let is_named = volume.controller.as_ref().is_none_or(|wanted| *wanted == storage.id);
        is_named && volume.members.iter().all(|member| storage.drives.iter().any(|(name, _)| name == member))
    };
    let missing = || cannot(format!("no controller has all its disks: {}", volume.members.join(" ")));
    let storage = storages.iter().find(has_all).ok_or_else(missing)?;
    let link =
        storage.volumes.clone().ok_or_else(|| cannot(format!("the controller {} has no volumes", storage.id)))?;
    let raid = raid_type(&volume.level).ok_or_else(|| cannot(format!("there is no level {}", volume.level)))?;
    let drives = volume.members.iter().filter_map(|member| storage.drives.iter().find(|(name, _)| name == member));
    let drives: Vec<Value> = drives.map(|(_, link)| json!({ "@odata.id": link })).collect();
    let mut body = Map::new();
    body.insert("Name".to_owned(), json!(volume.name));
    body.insert("RAIDType".to_owned(), json!(raid));
    body.insert("Links".to_owned(), json!({ "Drives": drives }));
    if let Some(size) = volume.size_gib {
        body.insert("CapacityBytes".to_owned(), json!(size.saturating_mul(GIB)));
    }
    Ok((link, Value::Object(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storages() -> Vec<Storage> {
        let drive = |name: &str| (name.to_owned(), format!("/drives/{name}"));
        vec![
            Storage {
                id: "A".to_owned(),
                volumes: Some("/A/Volumes".to_owned()),
                drives: vec![drive("d0"), drive("d1")],
            },
            Storage { id: "B".to_owned(), volumes: None, drives: vec![drive("d2")] },
        ]
    }

    fn volume(members: &[&str], level: &str) -> NewVolume {
        let members = members.iter().map(ToString::to_string).collect();
        NewVolume { controller: None, name: "root".to_owned(), level: level.to_owned(), size_gib: Some(10), members }
    }

    #[test]
    fn volumes_go_to_the_controller_that_has_their_disks() {
        let (link, body) = plan(&storages(), &volume(&["d0", "d1"], "1")).unwrap();
        assert_eq!(link, "/A/Volumes");
        assert_eq!(body["RAIDType"], "RAID1");
        assert_eq!(body["CapacityBytes"], 10 * GIB);
        assert_eq!(body["Links"]["Drives"][1]["@odata.id"], "/drives/d1");
    }

    #[test]
    fn what_cannot_be_built_is_said() {
        for (members, level, expected) in
            [(&["d0", "d2"][..], "1", "no controller"), (&["d2"], "0", "has no volumes"), (&["d0"], "9", "no level 9")]
        {
            let error = plan(&storages(), &volume(members, level)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
