//! Steps simulated machines offer: names, priorities and arguments as real controllers and the real ramdisk have them, so that what
//! is tried here can be used there.

use sabakan_domain::provision::{
    hardware::Aspect,
    steps::{ArgSpec, Flow, Interface, Place, StepSpec},
};

const CLEAN: &[Flow] = &[Flow::Clean];
const CLEAN_SERVICE: &[Flow] = &[Flow::Clean, Flow::Service];
const ALL_FLOWS: &[Flow] = &[Flow::Clean, Flow::Deploy, Flow::Service];

const LOGICAL_DISKS: &[ArgSpec] = &[ArgSpec {
    name: "logical_disks",
    required: true,
    text: "list of volumes: volume_name, raid_level, size_gb (or \"MAX\"), is_root_volume, physical_disks",
}];
const BIOS_SETTINGS: &[ArgSpec] =
    &[ArgSpec { name: "settings", required: true, text: "list of settings, each with name and value" }];
const FIRMWARE_SETTINGS: &[ArgSpec] =
    &[ArgSpec { name: "settings", required: true, text: "list of updates, each with component and url" }];

const fn spec(
    interface: Interface,
    name: &'static str,
    place: Place,
    flows: &'static [Flow],
    priority: u32,
    text: &'static str,
) -> StepSpec {
    StepSpec {
        interface,
        name,
        place,
        flows,
        priority,
        abortable: false,
        idempotent: true,
        disturbs: &[],
        args: &[],
        text,
    }
}

// Creating volumes twice fails or makes them twice, so it is not idempotent; deleting and applying lead to the same state however
// often they run.
const CREATE_RAID: StepSpec = StepSpec {
    idempotent: false,
    disturbs: &[Aspect::Raid],
    args: LOGICAL_DISKS,
    ..spec(Interface::Raid, "create_configuration", Place::OutOfBand, ALL_FLOWS, 0, "creates logical volumes")
};
const DELETE_RAID: StepSpec = StepSpec {
    disturbs: &[Aspect::Raid],
    ..spec(Interface::Raid, "delete_configuration", Place::OutOfBand, CLEAN_SERVICE, 0, "deletes all logical volumes")
};
const ERASE_MEMBERS: StepSpec = StepSpec {
    disturbs: &[Aspect::Raid],
    ..spec(
        Interface::Raid,
        "erase_members",
        Place::OutOfBand,
        CLEAN,
        0,
        "erases the disks below the logical volumes, which deletes the volumes",
    )
};
const APPLY_BIOS: StepSpec = StepSpec {
    disturbs: &[Aspect::Bios],
    args: BIOS_SETTINGS,
    ..spec(Interface::Bios, "apply_configuration", Place::OutOfBand, ALL_FLOWS, 0, "changes settings of the firmware")
};
const RESET_BIOS: StepSpec = StepSpec {
    disturbs: &[Aspect::Bios],
    ..spec(
        Interface::Bios,
        "factory_reset",
        Place::OutOfBand,
        CLEAN_SERVICE,
        0,
        "sets the firmware as it was delivered",
    )
};
// Flashing what is being flashed ruins boards.
const UPDATE_FIRMWARE: StepSpec = StepSpec {
    idempotent: false,
    args: FIRMWARE_SETTINGS,
    ..spec(
        Interface::Firmware,
        "update",
        Place::OutOfBand,
        CLEAN_SERVICE,
        0,
        "updates firmware, as a task of the controller",
    )
};
const BURN_IN: StepSpec = StepSpec {
    abortable: true,
    ..spec(
        Interface::Management,
        "burn_in",
        Place::OutOfBand,
        CLEAN,
        0,
        "exercises the hardware, as a task of the controller",
    )
};

// The fake machines of the original have it; whoever learned with them finds it here.
const LOG_PASSTHROUGH: StepSpec =
    spec(Interface::Vendor, "log_passthrough", Place::OutOfBand, CLEAN_SERVICE, 0, "does nothing that lasts");

/// Out of band.
pub const STEPS: &[StepSpec] =
    &[CREATE_RAID, DELETE_RAID, ERASE_MEMBERS, APPLY_BIOS, RESET_BIOS, UPDATE_FIRMWARE, BURN_IN, LOG_PASSTHROUGH];

/// The same, on machines whose automated cleaning tears volumes down and has to rebuild them.
pub const STEPS_ERASING_MEMBERS: &[StepSpec] = &[
    CREATE_RAID,
    DELETE_RAID,
    StepSpec { priority: 20, ..ERASE_MEMBERS },
    APPLY_BIOS,
    RESET_BIOS,
    UPDATE_FIRMWARE,
    BURN_IN,
    LOG_PASSTHROUGH,
];

/// In band. Erasing and writing are idempotent: a disk that is erased or written again holds what it should. They are abortable,
/// because a disk left half-way is never handed out: the flow failed.
pub const RAMDISK_STEPS: &[StepSpec] = &[
    StepSpec {
        abortable: true,
        ..spec(
            Interface::Deploy,
            "erase_devices_metadata",
            Place::InBand,
            CLEAN,
            99,
            "erases partition tables and signatures on all disks",
        )
    },
    StepSpec {
        abortable: true,
        ..spec(Interface::Deploy, "erase_devices", Place::InBand, CLEAN, 10, "erases all disks")
    },
    StepSpec {
        abortable: true,
        ..spec(
            Interface::Deploy,
            "write_image",
            Place::InBand,
            &[Flow::Deploy],
            80,
            "writes the image to the root disk",
        )
    },
    spec(Interface::Deploy, "prepare_instance_boot", Place::InBand, &[Flow::Deploy], 60, "installs the boot loader"),
    StepSpec {
        abortable: true,
        ..spec(Interface::Deploy, "burnin_cpu", Place::InBand, CLEAN, 0, "exercises the processors")
    },
    // As for other firmware.
    StepSpec {
        idempotent: false,
        ..spec(
            Interface::Deploy,
            "update_nic_firmware",
            Place::InBand,
            CLEAN_SERVICE,
            0,
            "updates the firmware of the network cards",
        )
    },
];

/// The step that is written so.
pub(super) fn find(key: &str) -> Option<&'static StepSpec> {
    STEPS.iter().chain(RAMDISK_STEPS).find(|spec| spec.key() == key)
}
