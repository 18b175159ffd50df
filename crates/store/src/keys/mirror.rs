//! Keys of another program, CKE: those it reads and we write. This is the one list of them; the reference page is made of it.

use super::{KeyDoc, Keys};

/// A key of CKE that we write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MirroredKey {
    /// What it carries out.
    Cluster,
    /// What it was made from.
    ClusterRevision,
    /// What it keeps to.
    Constraints,
    /// Its generator is off.
    SabakanDisabled,
    /// It enqueues no repairs.
    AutoRepairDisabled,
    /// It begins no repairs.
    RepairsDisabled,
}

impl MirroredKey {
    /// Every one, in the order of the reference page.
    pub const ALL: [MirroredKey; 6] = [
        MirroredKey::Cluster,
        MirroredKey::ClusterRevision,
        MirroredKey::Constraints,
        MirroredKey::SabakanDisabled,
        MirroredKey::AutoRepairDisabled,
        MirroredKey::RepairsDisabled,
    ];

    /// Switches of what we do in CKE's place. They are written with every copy: two planners would undo each other's work, and two
    /// repairers would repair one machine, the second one past the guard.
    pub const SWITCHES: [MirroredKey; 3] =
        [MirroredKey::SabakanDisabled, MirroredKey::AutoRepairDisabled, MirroredKey::RepairsDisabled];

    /// What follows the prefix, and what it is for.
    pub const fn doc(self) -> KeyDoc {
        match self {
            MirroredKey::Cluster => KeyDoc {
                pattern: "cluster",
                value: "JSON",
                meaning: "The configuration without its `repair` part and without what CKE 1.30.2 does not know.",
            },
            MirroredKey::ClusterRevision => KeyDoc {
                pattern: "cluster-revision",
                value: "number",
                meaning: "The revision of the template that the configuration was made from.",
            },
            MirroredKey::Constraints => KeyDoc {
                pattern: "constraints",
                value: "JSON object of numbers",
                meaning: "The constraints, if somebody set them, with `maximum-repair-queue-entries` 0.",
            },
            MirroredKey::SabakanDisabled => KeyDoc {
                pattern: "sabakan/disabled",
                value: "text `true`",
                meaning: "CKE does not generate configurations.",
            },
            MirroredKey::AutoRepairDisabled => KeyDoc {
                pattern: "auto-repair/disabled",
                value: "text `true`",
                meaning: "CKE puts no broken machine into its repair queue.",
            },
            MirroredKey::RepairsDisabled => KeyDoc {
                pattern: "repairs/disabled",
                value: "text `true`",
                meaning: "CKE does not work its repair queue off.",
            },
        }
    }
}

impl Keys {
    /// A key of CKE, if there shall be copies for it.
    pub(crate) fn mirrored(&self, key: MirroredKey) -> Option<String> {
        self.mirror_prefix.as_ref().map(|prefix| format!("{prefix}{}", key.doc().pattern))
    }
}
