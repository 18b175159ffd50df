//! Each fault has the effect it is named after, and nothing else.

use std::time::Duration;

use sabakan_domain::provision::{
    boot::BootDevice,
    hardware::HardwareHealth,
    power::{PowerState, PowerTarget},
};
use sabakan_drivers::{
    DriverError, TaskState, power,
    simulated::{Call, Calls, Command, Fault, FleetConfig, Latencies, Point, STEPS},
};
use serde_json::json;
use tokio::time::Instant;

use super::{Bench, SOON, boot_once, end_of, step};

#[tokio::test(start_paused = true)]
async fn a_machine_without_faults_has_none() {
    let bench = Bench::new();
    let bmc = bench.bmc();
    assert_eq!(bmc.power().await, Ok(Some(PowerState::Off)));
    assert_eq!(bmc.health().await, Ok(Some(HardwareHealth::Ok)));
    assert_eq!(bench.fleet.calls("m1"), Calls { total: 2, commands: vec![], forgotten: 0 });
}

#[tokio::test(start_paused = true)]
async fn wrong_password_refuses_and_commands_nothing() {
    for bmc in
        [Bench::with_fault(Fault::WrongPassword).bmc(), Bench::new().bmc_with("fake_wrong_password", json!(true))]
    {
        assert!(matches!(bmc.power().await, Err(DriverError::Credentials(_))));
    }
    let bench = Bench::with_fault(Fault::WrongPassword);
    assert!(matches!(bench.bmc().command_power(PowerTarget::On).await, Err(DriverError::Credentials(_))));
    assert_eq!(bench.fleet.calls("m1").commands, []);
    bench.fleet.clear_faults("m1");
    assert_eq!(bench.bmc().command_power(PowerTarget::On).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn hanging_calls_end_at_their_limit() {
    let bench = Bench::with_fault(Fault::Hang(Point::Every));
    let started = Instant::now();
    assert!(matches!(bench.bmc().inspect().await, Err(DriverError::Unreachable(_))));
    assert_eq!(started.elapsed(), bench.fleet.config().latencies.limit);

    let bench = Bench::with_fault(Fault::Hang(Point::Call(Call::CommandPower)));
    assert!(matches!(bench.bmc().command_power(PowerTarget::On).await, Err(DriverError::Unreachable(_))));
    assert_eq!(bench.fleet.power("m1"), PowerState::Off);
    assert_eq!(bench.bmc().power().await, Ok(Some(PowerState::Off)), "another call hangs as well");
    assert_eq!(bench.fleet.calls("m1").count(&Command::Power(PowerTarget::On)), 1, "it did arrive");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_its_effect() {
    let bench = Bench::with_fault(Fault::LoseAnswer(Point::Step("raid.delete_configuration".to_owned())));
    let delete = step(STEPS, "raid.delete_configuration", &[]);
    assert!(matches!(bench.bmc().run_step(&delete).await, Err(DriverError::Unreachable(_))));
    assert_eq!(bench.fleet.configuration("m1").volumes, Some(vec![]));
    assert!(bench.bmc().power().await.is_ok(), "other answers are lost as well");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_drops_off_answers_so_many_calls() {
    let bench = Bench::new();
    assert!(bench.bmc().power().await.is_ok());
    bench.fleet.set_fault("m1", Fault::DropAfter(2));
    for _ in 0..2 {
        assert!(bench.bmc().power().await.is_ok(), "dropped off too early");
    }
    for _ in 0..2 {
        assert!(matches!(bench.bmc().power().await, Err(DriverError::Unreachable(_))), "still there");
    }
    bench.fleet.clear_faults("m1");
    assert!(bench.bmc().power().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn stuck_power_is_accepted_and_never_confirmed() {
    let bench = Bench::with_fault(Fault::PowerStuck);
    let bmc = bench.bmc();
    assert_eq!(bmc.command_power(PowerTarget::On).await, Ok(()));
    assert!(matches!(power::change(&*bmc, PowerTarget::On, SOON).await, Err(DriverError::Failed { .. })));
    assert_eq!(bench.fleet.power("m1"), PowerState::Off);
}

#[tokio::test(start_paused = true)]
async fn inverted_power_is_told_wrongly() {
    let bench = Bench::with_fault(Fault::PowerInverted);
    assert_eq!(bench.bmc().power().await, Ok(Some(PowerState::On)));
    assert_eq!(bench.fleet.power("m1"), PowerState::Off);
}

#[tokio::test(start_paused = true)]
async fn flapping_power_differs_from_reading_to_reading() {
    let bench = Bench::with_fault(Fault::PowerFlaps);
    let bmc = bench.bmc();
    let (first, second, third) = (bmc.power().await, bmc.power().await, bmc.power().await);
    assert_ne!(first, second);
    assert_eq!(first, third);
}

#[tokio::test(start_paused = true)]
async fn a_slow_controller_is_late_or_too_late() {
    let bench = Bench::with_fault(Fault::Slow(Duration::from_millis(700)));
    let started = Instant::now();
    assert!(bench.bmc().power().await.is_ok());
    assert_eq!(started.elapsed(), Duration::from_millis(700));

    let bench = Bench::with_fault(Fault::Slow(SOON));
    assert!(matches!(bench.bmc().command_power(PowerTarget::On).await, Err(DriverError::Unreachable(_))));
    assert_eq!(bench.fleet.power("m1"), PowerState::On, "a command whose answer is late has arrived all the same");
}

#[tokio::test(start_paused = true)]
async fn every_call_can_be_made_to_fail() {
    let bench = Bench::with_fault(Fault::Fail(Point::Every));
    let bmc = bench.bmc();
    let wanted = bench.fleet.configuration("m1");
    let burn_in = step(STEPS, "management.burn_in", &[]);
    let failures = [
        bmc.power().await.err(),
        bmc.command_power(PowerTarget::On).await.err(),
        bmc.set_boot(&boot_once(BootDevice::Pxe)).await.err(),
        bmc.boot().await.err(),
        bmc.inspect().await.err(),
        bmc.sensors().await.err(),
        bmc.health().await.err(),
        bmc.configuration().await.err(),
        bmc.restore(&wanted).await.err(),
        bmc.run_step(&burn_in).await.err(),
        bmc.reset_bmc().await.err(),
    ];
    for (call, failure) in failures.iter().enumerate() {
        assert!(matches!(failure, Some(DriverError::Failed { .. })), "call {call}: {failure:?}");
    }
    assert_eq!(bench.fleet.power("m1"), PowerState::Off);
    assert_eq!(bench.fleet.configuration("m1"), wanted);
}

#[tokio::test(start_paused = true)]
async fn steps_fail_or_hang_by_name() {
    let delete = step(STEPS, "raid.delete_configuration", &[]);
    let burn_in = step(STEPS, "management.burn_in", &[]);
    let point = |key: &str| Point::Step(key.to_owned());

    let bench = Bench::with_fault(Fault::Fail(point("raid.delete_configuration")));
    let before = bench.fleet.configuration("m1");
    assert!(matches!(bench.bmc().run_step(&delete).await, Err(DriverError::Failed { .. })));
    assert_eq!(bench.fleet.configuration("m1"), before);

    let bench = Bench::with_fault(Fault::Hang(point("raid.delete_configuration")));
    assert!(matches!(bench.bmc().run_step(&delete).await, Err(DriverError::Unreachable(_))));
    assert!(bench.bmc().run_step(&burn_in).await.is_ok(), "another step hangs as well");

    let bench = Bench::with_fault(Fault::Fail(point("management.burn_in")));
    let bmc = bench.bmc();
    let ran = bmc.run_step(&burn_in).await.unwrap();
    assert!(
        matches!(end_of(&*bmc, ran).await, Ok(TaskState::Failed(_))),
        "a task fails when it ends, not when it starts"
    );
}

#[tokio::test(start_paused = true)]
async fn health_is_what_was_asked_for() {
    for health in HardwareHealth::ALL {
        assert_eq!(Bench::with_fault(Fault::Health(health)).bmc().health().await, Ok(Some(health)));
        assert_eq!(Bench::new().bmc_with("fake_health", json!(health.as_str())).health().await, Ok(Some(health)));
    }
}

#[tokio::test(start_paused = true)]
async fn lost_volumes_are_not_put_back() {
    let delete = step(STEPS, "raid.erase_members", &[]);
    for (fault, comes_back) in [(None, true), (Some(Fault::RaidLost), false)] {
        let bench = Bench::new();
        if let Some(fault) = fault {
            bench.fleet.set_fault("m1", fault);
        }
        let (bmc, before) = (bench.bmc(), bench.fleet.configuration("m1"));
        bmc.run_step(&delete).await.unwrap();
        assert_ne!(bench.fleet.configuration("m1"), before);
        let outcome = bmc.restore(&before).await.unwrap();
        assert!(matches!(end_of(&*bmc, outcome).await, Ok(TaskState::Done(_))));
        assert_eq!(bench.fleet.configuration("m1") == before, comes_back);
    }
}

#[tokio::test(start_paused = true)]
async fn a_restarting_controller_is_away_for_a_while() {
    let bench = Bench::with(FleetConfig { latencies: Latencies::realistic(), ..FleetConfig::default() });
    let bmc = bench.bmc();
    power::change(&*bmc, PowerTarget::On, SOON).await.unwrap();
    bmc.reset_bmc().await.unwrap();
    assert!(matches!(bmc.power().await, Err(DriverError::Unreachable(_))));
    tokio::time::sleep(bench.fleet.config().latencies.reset).await;
    assert_eq!(bmc.power().await, Ok(Some(PowerState::On)), "the machine goes on without its controller");
}
