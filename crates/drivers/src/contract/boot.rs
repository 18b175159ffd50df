//! The boot device is the one that was set.

use sabakan_domain::provision::boot::BootRequest;

use super::Subject;

/// Each device can be set for the next start and for every start, and is read back where the controller tells.
pub async fn boot_device_is_set_and_read_back(subject: &Subject<'_>) {
    let bmc = subject.bmc();
    let offered = match bmc.boot_devices().await {
        Ok(offered) => offered,
        Err(error) => panic!("the boot devices were not named: {error}"),
    };
    for &device in subject.boot_devices {
        assert!(offered.contains(&device), "{device} is not among the boot devices named: {offered:?}");
        for persistent in [false, true] {
            let request = BootRequest { device, persistent, http_uri: None };
            let set = bmc.set_boot(&request).await;
            assert_eq!(set, Ok(()), "{device} (persistent: {persistent}) was not taken");
            if subject.reads_boot {
                let read = bmc.boot().await;
                assert_eq!(read, Ok((device, persistent)), "the boot device read after it was set");
            }
        }
    }
}
