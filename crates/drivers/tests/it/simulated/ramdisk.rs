//! The simulated ramdisk: when it runs, when it calls, what its steps do, and how it ends.

use std::{sync::Arc, time::Duration};

use sabakan_domain::provision::{boot::BootDevice, power::PowerTarget, steps::Args};
use sabakan_drivers::{
    Driver, DriverError, Ramdisk, StepStart, TaskState, power,
    simulated::{Call, Calls, Fault, FleetConfig, Heartbeat, Latencies, Point, Running},
};
use tokio::{
    sync::mpsc::Receiver,
    time::{Instant, timeout},
};

use super::{Bench, SOON, boot_once, settings};

/// Starts the machine from the network.
async fn start_ramdisk(bench: &Bench) {
    let bmc = bench.bmc();
    bmc.set_boot(&boot_once(BootDevice::Pxe)).await.unwrap();
    power::change(&*bmc, PowerTarget::Reboot, SOON).await.unwrap();
}

async fn call_of(calls: &mut Receiver<Heartbeat>) -> Heartbeat {
    timeout(SOON * 3, calls.recv()).await.expect("a ramdisk calls").expect("the fleet is there")
}

fn ramdisk(bench: &Bench, call: &Heartbeat) -> Arc<dyn Ramdisk> {
    bench.driver.ramdisk(&settings(&[]), &call.url).unwrap()
}

async fn run_to_end(bench: &Bench, calls: &mut Receiver<Heartbeat>, step: &str) -> TaskState {
    let ramdisk = ramdisk(bench, &call_of(calls).await);
    ramdisk.start(step, &Args::new(), false).await.unwrap();
    loop {
        call_of(calls).await;
        match ramdisk.status(step, None).await.unwrap() {
            Some(TaskState::Running(_)) => assert_eq!(ramdisk.running().await.unwrap().as_deref(), Some(step)),
            Some(ended) => {
                assert_eq!(ramdisk.running().await, Ok(None));
                return ended;
            }
            None => panic!("the ramdisk forgot {step}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn it_calls_when_it_runs_and_again_and_again() {
    for device in [BootDevice::Pxe, BootDevice::UefiHttp] {
        let bench = Bench::with(FleetConfig::default());
        let mut calls = bench.fleet.callbacks();
        let bmc = bench.bmc();
        bmc.set_boot(&boot_once(device)).await.unwrap();
        let started = Instant::now();
        bmc.command_power(PowerTarget::On).await.unwrap();
        let first = call_of(&mut calls).await;
        let Latencies { power, boot, heartbeat, .. } = bench.fleet.config().latencies;
        let took = started.elapsed();
        assert!(took >= (power + boot) * 3 / 4 && took <= (power + boot) * 5 / 4, "called after {took:?}");
        assert_eq!(bench.fleet.running("m1"), Running::Ramdisk);
        let started = Instant::now();
        assert_eq!(call_of(&mut calls).await, first);
        assert!(
            started.elapsed() <= heartbeat + Duration::from_millis(2),
            "the second call took {:?}",
            started.elapsed()
        );
        assert_eq!(bmc.boot().await, Ok((BootDevice::Disk, true)), "once is once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_starts_from_its_disk_does_not_call() {
    let bench = Bench::new();
    let mut calls = bench.fleet.callbacks();
    power::change(&*bench.bmc(), PowerTarget::On, SOON).await.unwrap();
    assert!(timeout(SOON, calls.recv()).await.is_err(), "somebody called");
    assert_eq!(bench.fleet.running("m1"), Running::Nothing);
}

#[tokio::test(start_paused = true)]
async fn what_it_writes_is_what_starts_and_what_it_erases_is_gone() {
    let bench = Bench::new();
    let mut calls = bench.fleet.callbacks();
    for (step, then) in [("deploy.write_image", Running::Instance), ("deploy.erase_devices", Running::Nothing)] {
        start_ramdisk(&bench).await;
        assert!(matches!(run_to_end(&bench, &mut calls, step).await, TaskState::Done(_)));
        power::change(&*bench.bmc(), PowerTarget::Reboot, SOON).await.unwrap();
        assert_eq!(bench.fleet.running("m1"), then, "after {step}");
        calls = bench.fleet.callbacks();
    }
    let seen = bench.fleet.calls("m1");
    assert_eq!((seen.steps("deploy.write_image"), seen.steps("deploy.erase_devices"), seen.forgotten), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_boot_loader_needs_a_system() {
    let bench = Bench::new();
    let mut calls = bench.fleet.callbacks();
    start_ramdisk(&bench).await;
    let ended = run_to_end(&bench, &mut calls, "deploy.prepare_instance_boot").await;
    assert!(matches!(ended, TaskState::Failed(_)), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_ended_is_told_at_once() {
    let bench = Bench::with(FleetConfig::default());
    let mut calls = bench.fleet.callbacks();
    start_ramdisk(&bench).await;
    let ramdisk = ramdisk(&bench, &call_of(&mut calls).await);
    assert_eq!(ramdisk.status("deploy.erase_devices", None).await, Ok(None));
    ramdisk.start("deploy.erase_devices", &Args::new(), false).await.unwrap();
    let started = Instant::now();
    call_of(&mut calls).await;
    let Latencies { ramdisk_step, heartbeat, .. } = bench.fleet.config().latencies;
    assert!(started.elapsed() <= ramdisk_step * 5 / 4 && ramdisk_step * 5 / 4 < heartbeat, "{:?}", started.elapsed());
    assert!(matches!(ramdisk.status("deploy.erase_devices", None).await, Ok(Some(TaskState::Done(_)))));
}

#[tokio::test(start_paused = true)]
async fn asking_twice_runs_once_and_another_step_has_to_wait() {
    let bench = Bench::with(FleetConfig::default());
    let mut calls = bench.fleet.callbacks();
    start_ramdisk(&bench).await;
    let ramdisk = ramdisk(&bench, &call_of(&mut calls).await);
    for _ in 0..2 {
        let taken = StepStart::Taken { command: None, state: TaskState::Running(String::new()) };
        assert_eq!(ramdisk.start("deploy.update_nic_firmware", &Args::new(), false).await, Ok(taken));
    }
    let other = ramdisk.start("deploy.erase_devices", &Args::new(), false).await;
    assert!(matches!(&other, Ok(StepStart::Busy(text)) if text.contains("update_nic_firmware")), "{other:?}");
    let unknown = ramdisk.start("deploy.no_such_step", &Args::new(), false).await;
    assert!(matches!(unknown, Err(DriverError::Unsupported(_))), "{unknown:?}");
    assert_eq!(bench.fleet.calls("m1").steps("deploy.update_nic_firmware"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_its_step_running() {
    let bench = Bench::with_fault(Fault::LoseAnswer(Point::Step("deploy.write_image".to_owned())));
    let mut calls = bench.fleet.callbacks();
    start_ramdisk(&bench).await;
    let ramdisk = ramdisk(&bench, &call_of(&mut calls).await);
    let lost = ramdisk.start("deploy.write_image", &Args::new(), false).await;
    assert!(matches!(lost, Err(DriverError::Unreachable(_))), "{lost:?}");
    call_of(&mut calls).await;
    assert!(matches!(ramdisk.status("deploy.write_image", None).await, Ok(Some(TaskState::Done(_)))));
}

#[tokio::test(start_paused = true)]
async fn it_is_gone_with_the_power_and_another_one_after_a_restart() {
    let bench = Bench::new();
    let mut calls = bench.fleet.callbacks();
    start_ramdisk(&bench).await;
    let first = call_of(&mut calls).await;
    power::change(&*bench.bmc(), PowerTarget::Off, SOON).await.unwrap();
    let gone = ramdisk(&bench, &first).status("deploy.erase_devices", None).await;
    assert!(matches!(gone, Err(DriverError::Unreachable(_))), "{gone:?}");
    while calls.try_recv().is_ok() {}
    assert!(timeout(SOON, calls.recv()).await.is_err(), "a machine without power called");

    start_ramdisk(&bench).await;
    let second = call_of(&mut calls).await;
    assert_ne!(first.url, second.url);
    assert_eq!(ramdisk(&bench, &second).status("deploy.erase_devices", None).await, Ok(None));
    let stale = ramdisk(&bench, &first).start("deploy.erase_devices", &Args::new(), false).await;
    assert!(matches!(stale, Err(DriverError::Unreachable(_))), "{stale:?}");
    assert!(bench.driver.ramdisk(&settings(&[]), "simulated://m2/1").is_err(), "the ramdisk of another machine");
}

#[tokio::test(start_paused = true)]
async fn a_silent_ramdisk_runs_and_never_calls() {
    let bench = Bench::with_fault(Fault::RamdiskSilent);
    let mut calls = bench.fleet.callbacks();
    start_ramdisk(&bench).await;
    assert!(timeout(SOON * 10, calls.recv()).await.is_err(), "it called");
    assert_eq!(bench.fleet.running("m1"), Running::Ramdisk);
    bench.fleet.clear_faults("m1");
    call_of(&mut calls).await;
}

#[tokio::test(start_paused = true)]
async fn its_steps_fail_or_never_end_by_name() {
    let point = || Point::Step("deploy.erase_devices".to_owned());
    let bench = Bench::with_fault(Fault::Fail(point()));
    let mut calls = bench.fleet.callbacks();
    start_ramdisk(&bench).await;
    let ended = run_to_end(&bench, &mut calls, "deploy.erase_devices").await;
    assert!(matches!(ended, TaskState::Failed(_)), "{ended:?}");

    let bench = Bench::with_fault(Fault::Hang(point()));
    let mut calls = bench.fleet.callbacks();
    start_ramdisk(&bench).await;
    let ended = timeout(SOON * 10, run_to_end(&bench, &mut calls, "deploy.erase_devices")).await;
    assert!(ended.is_err(), "it ended: {ended:?}");
}

#[tokio::test(start_paused = true)]
async fn it_can_be_deaf_or_refuse_while_the_controller_is_well() {
    let bench = Bench::new();
    let mut calls = bench.fleet.callbacks();
    start_ramdisk(&bench).await;
    let ramdisk = ramdisk(&bench, &call_of(&mut calls).await);
    bench.fleet.set_fault("m1", Fault::Fail(Point::Call(Call::Ramdisk)));
    let refused = ramdisk.start("deploy.erase_devices", &Args::new(), false).await;
    assert!(matches!(refused, Err(DriverError::Failed { .. })), "{refused:?}");
    bench.fleet.set_fault("m1", Fault::Hang(Point::Call(Call::Ramdisk)));
    let deaf = ramdisk.status("deploy.erase_devices", None).await;
    assert!(matches!(deaf, Err(DriverError::Unreachable(_))), "{deaf:?}");
    assert!(bench.bmc().power().await.is_ok());
    bench.fleet.clear_faults("m1");
    bench.fleet.set_fault("m1", Fault::Hang(Point::Every));
    assert_eq!(ramdisk.status("deploy.erase_devices", None).await, Ok(None), "the ramdisk has a network of its own");
}

#[tokio::test(start_paused = true)]
async fn whoever_starts_a_step_need_not_live_to_hear_of_it() {
    let bench = Bench::with(FleetConfig::default());
    let mut calls = bench.fleet.callbacks();
    start_ramdisk(&bench).await;
    let ramdisk = ramdisk(&bench, &call_of(&mut calls).await);
    let cut_short = timeout(Duration::from_millis(1), ramdisk.start("deploy.erase_devices", &Args::new(), false)).await;
    assert!(cut_short.is_err(), "the answer was quicker than the one who waited for it");
    let started = Instant::now();
    call_of(&mut calls).await;
    assert!(started.elapsed() <= bench.fleet.config().latencies.ramdisk_step * 5 / 4, "{:?}", started.elapsed());
    assert!(matches!(ramdisk.status("deploy.erase_devices", None).await, Ok(Some(TaskState::Done(_)))));
}

#[tokio::test(start_paused = true)]
async fn nobody_calls_for_a_fleet_that_is_gone() {
    let bench = Bench::new();
    let pause = bench.fleet.config().latencies.heartbeat;
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    start_ramdisk(&bench).await;
    assert_eq!(alive(), 1);
    drop(bench);
    tokio::time::sleep(pause * 2).await;
    assert_eq!(alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn volumes_can_get_lost_while_erasing() {
    let bench = Bench::with_fault(Fault::RaidLost);
    let mut calls = bench.fleet.callbacks();
    start_ramdisk(&bench).await;
    let before = bench.fleet.configuration("m1");
    run_to_end(&bench, &mut calls, "deploy.erase_devices_metadata").await;
    assert_ne!(bench.fleet.configuration("m1"), before);
}

#[tokio::test(start_paused = true)]
async fn whoever_listens_late_hears_the_next_call() {
    let bench = Bench::new();
    start_ramdisk(&bench).await;
    tokio::time::sleep(SOON).await;
    let mut calls = bench.fleet.callbacks();
    call_of(&mut calls).await;
    drop(calls);
    tokio::time::sleep(SOON).await;
    call_of(&mut bench.fleet.callbacks()).await;
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_loses_no_machine() {
    let bench = Bench::new();
    let mut calls = bench.fleet.callbacks();
    let machines = calls.max_capacity() + 500;
    for n in 0..machines {
        let settings = sabakan_drivers::Settings { machine: format!("m{n}"), ..settings(&[]) };
        let bmc = bench.driver.connect(&settings).unwrap();
        bmc.set_boot(&boot_once(BootDevice::Pxe)).await.unwrap();
        bmc.command_power(PowerTarget::On).await.unwrap();
    }
    // Nobody listens for a while: the queue fills up, and heartbeats are lost.
    tokio::time::sleep(SOON).await;
    let mut heard = std::collections::BTreeSet::new();
    while heard.len() < machines {
        heard.insert(call_of(&mut calls).await.machine);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_commanded_by_looking() {
    let bench = Bench::new();
    let bmc = bench.bmc();
    bmc.power().await.unwrap();
    bmc.inspect().await.unwrap();
    bmc.configuration().await.unwrap();
    bmc.boot_devices().await.unwrap();
    assert_eq!(bench.fleet.calls("m1"), Calls { total: 4, commands: vec![], forgotten: 0 });
}
