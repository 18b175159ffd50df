//! Steps of the agent that are known before one is asked: those its own hardware manager has, and those that are commands.
//!
//! They are what is planned with. What an agent really offers it says when it has booted, and that is what is run.

use sabakan_domain::provision::{
    hardware::Aspect,
    steps::{ArgSpec, Flow, Interface, Place, StepSpec},
};

const CLEAN: &[Flow] = &[Flow::Clean];
const CLEAN_SERVICE: &[Flow] = &[Flow::Clean, Flow::Service];

const fn spec(name: &'static str, flows: &'static [Flow], priority: u32, text: &'static str) -> StepSpec {
    StepSpec {
        interface: Interface::Deploy,
        name,
        place: Place::InBand,
        flows,
        priority,
        // A disk that is left half way is never handed out: the flow failed.
        abortable: true,
        // What is erased or written again holds what it should.
        idempotent: true,
        disturbs: &[],
        args: &[],
        text,
    }
}

const RAID: StepSpec = StepSpec {
    interface: Interface::Raid,
    abortable: false,
    idempotent: false,
    disturbs: &[Aspect::Raid],
    ..spec("", CLEAN_SERVICE, 0, "")
};

/// Everything but the image: for nodes whose image has steps of its own that write it.
pub const WITHOUT_IMAGE: &[StepSpec] = &[
    spec("erase_devices_metadata", CLEAN, 99, "erases partition tables and signatures on all disks"),
    spec("erase_devices", CLEAN, 10, "erases all disks, by their own means where they have some"),
    spec("erase_devices_express", CLEAN, 0, "erases by the disks' own means, and signatures elsewhere"),
    spec("erase_pstore", CLEAN, 0, "erases what kernels left behind in the firmware"),
    spec("clean_uefi_nvram", CLEAN_SERVICE, 0, "erases boot entries of the firmware"),
    spec("burnin_cpu", CLEAN, 0, "exercises the processors"),
    spec("burnin_disk", CLEAN, 0, "exercises the disks"),
    spec("burnin_memory", CLEAN, 0, "exercises the memory"),
    spec("burnin_network", CLEAN, 0, "exercises the network"),
    spec("prepare_instance_boot", &[Flow::Deploy], 60, "installs the boot loader"),
    StepSpec { name: "create_configuration", text: "makes the software volumes that the node wants", ..RAID },
    StepSpec { name: "delete_configuration", idempotent: true, text: "deletes all software volumes", ..RAID },
    StepSpec {
        name: "apply_configuration",
        args: &[
            ArgSpec { name: "raid_config", required: true, text: "logical_disks: list of volumes" },
            ArgSpec { name: "delete_existing", required: false, text: "delete all volumes before; default true" },
        ],
        text: "makes these software volumes",
        ..RAID
    },
];

/// The image.
const WRITE_IMAGE: StepSpec = spec("write_image", &[Flow::Deploy], 80, "writes the image to the root disk");

/// Everything: for nodes whose image is written as it is.
pub const WITH_IMAGE: &[StepSpec] = &{
    let mut all = [WRITE_IMAGE; WITHOUT_IMAGE.len() + 1];
    let mut n = 0;
    while n < WITHOUT_IMAGE.len() {
        all[n] = WITHOUT_IMAGE[n];
        n += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use sabakan_domain::provision::agent::COMMANDS;

    use super::*;

    #[test]
    fn commands_are_among_the_steps() {
        let has = |steps: &[StepSpec], key: &str| steps.iter().any(|step| step.key() == key);
        assert!(COMMANDS.iter().all(|key| has(WITH_IMAGE, key)));
        assert!(!has(WITHOUT_IMAGE, "deploy.write_image"));
        assert_eq!(WITH_IMAGE.len(), WITHOUT_IMAGE.len() + 1);
    }
}
