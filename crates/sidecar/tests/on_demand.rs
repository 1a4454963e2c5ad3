//! Sidecars that start and stop on demand, with test runners that count their frames.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use aifo_sidecar::{
    Backend, ExecEvent, Fleet, Progress, Reporter, Runner, SidecarError, SidecarEvent, Starting,
    Startup,
};
use aifo_types::{Ending, ExecId, ExecRequest, Kind, ToolName};
use aifo_wire::{Exit, FRAMES_VERSION, Frame, FrameReader, Reports, ResourceUsage, Setup, Start};
use tokio::sync::Notify;

/// Counts of all runners together.
#[derive(Debug, Default)]
struct Counts {
    starts: AtomicUsize,
    execs: AtomicUsize,
    retired: AtomicUsize,
    /// `Retire` frames that a runner answered with `Busy`.
    stayed: AtomicUsize,
    /// Calls that reached a runner after it had retired.
    too_late: AtomicUsize,
}

/// Starts runners that are threads of this process.
#[derive(Clone, Default)]
struct Threads {
    counts: Arc<Counts>,
    /// A kind whose start waits for a notification.
    gate: Option<(Kind, Arc<Notify>)>,
    /// The number of starts to fail.
    failures: Arc<AtomicUsize>,
    /// The number of `Retire` frames to answer with `Busy`.
    refusals: Arc<AtomicUsize>,
}

impl Backend for Threads {
    fn start(&self, kind: Kind, _progress: Progress) -> Starting {
        let this = self.clone();
        Box::pin(async move {
            this.counts.starts.fetch_add(1, Ordering::SeqCst);
            if let Some((_, open)) = this.gate.as_ref().filter(|(closed, _)| *closed == kind) {
                open.notified().await;
            }
            if take_one(&this.failures) {
                return Err(SidecarError::Start { kind, source: std::io::Error::other("no luck") });
            }
            let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
            let (counts, refusals) = (this.counts, this.refusals);
            thread::spawn(move || run(theirs, &counts, &refusals));
            Runner::connect(kind.clone(), OwnedFd::from(ours), &setup(&kind)).await
        })
    }
}

fn setup(kind: &Kind) -> Setup {
    Setup { workspace: vec![b"/w".to_vec()], tmp: Vec::new(), kind: kind.to_string() }
}

fn take_one(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

/// A runner whose tools end at once.
fn run(mut control: UnixStream, counts: &Counts, refusals: &AtomicUsize) {
    let say = |mut to: &UnixStream, frame: Frame<'_>| {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        // The other end may have closed.
        let _ = to.write_all(&bytes);
    };
    say(&control, Frame::Hello { version: FRAMES_VERSION });
    let (mut frames, mut bytes, mut gone) = (FrameReader::new(), [0; 4096], false);
    while let Ok(count @ 1..) = control.read(&mut bytes) {
        frames.receive(&bytes[..count]);
        while let Some(frame) = frames.next_frame().expect("the proxy keeps to the protocol") {
            match frame {
                Frame::Start(_) if gone => _ = counts.too_late.fetch_add(1, Ordering::SeqCst),
                Frame::Start(start) => {
                    counts.execs.fetch_add(1, Ordering::SeqCst);
                    let usage = ResourceUsage::default();
                    let ending = Ending::Exited(0);
                    let exit = Exit { ending, cancelled: None, note: None, taken: 0, usage };
                    say(&control, Frame::Exit { serial: start.serial(), exit });
                }
                Frame::Retire if take_one(refusals) => {
                    counts.stayed.fetch_add(1, Ordering::SeqCst);
                    say(&control, Frame::Busy);
                }
                Frame::Retire => {
                    counts.retired.fetch_add(1, Ordering::SeqCst);
                    gone = true;
                    // Keeps reading, to count calls that arrive too late.
                    let _ = control.shutdown(std::net::Shutdown::Write);
                }
                _ => {}
            }
        }
    }
}

fn kind(name: &str) -> Kind {
    Kind::parse(name).expect("a kind")
}

async fn fleet(backend: &Threads, kinds: &[&str], idle_stop: Option<Duration>) -> Arc<Fleet> {
    let kinds: Vec<_> = kinds.iter().map(|name| kind(name)).collect();
    let (backend, host) = (Box::new(backend.clone()), Box::new(Threads::default()));
    let startup = Startup { on_demand: kinds.iter().cloned().collect(), idle_stop };
    let fleet = Fleet::start(backend, host, kinds, startup, Reporter::default()).await;
    Arc::new(fleet.expect("nothing is started yet"))
}

/// Makes one call and waits for its end.
async fn call(fleet: &Fleet, name: &str) -> Result<Option<ExecEvent>, Arc<SidecarError>> {
    let (id, tool) = (ExecId::parse(b"e1").unwrap(), ToolName::parse(b"make").unwrap());
    let mut start = Start::new(ExecRequest::new(id, tool));
    start.reports = Reports::ExitOnly;
    let mut exec = fleet.lease(&kind(name)).await?.start(start, Vec::new());
    Ok(exec.next().await)
}

fn ended(event: &Option<ExecEvent>) -> bool {
    matches!(event, Some(ExecEvent::Ended(_)))
}

/// Runs `work` on a current-thread runtime, as `aifo-coder` does.
fn on_a_reactor(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work);
}

#[test]
fn concurrent_first_calls_share_one_start() {
    on_a_reactor(async {
        let open = Arc::new(Notify::new());
        let backend =
            Threads { gate: Some((kind("rust"), Arc::clone(&open))), ..Threads::default() };
        let fleet = fleet(&backend, &["rust", "go"], None).await;
        assert!(fleet.ready(&kind("rust")).is_none() && fleet.running().borrow().is_empty());
        let calls: Vec<_> = (0..20)
            .map(|_| {
                let fleet = Arc::clone(&fleet);
                tokio::spawn(async move { call(&fleet, "rust").await })
            })
            .collect();
        // A call of another kind does not wait for the start.
        assert!(ended(&call(&fleet, "go").await.unwrap()));
        assert_eq!(backend.counts.starts.load(Ordering::SeqCst), 2);
        open.notify_one();
        for call in calls {
            assert!(ended(&call.await.unwrap().unwrap()));
        }
        assert_eq!(backend.counts.starts.load(Ordering::SeqCst), 2);
        assert_eq!(backend.counts.execs.load(Ordering::SeqCst), 21);
        assert_eq!(fleet.running().borrow().len(), 2);
        fleet.stop().await;
    });
}

#[test]
fn a_failed_start_fails_only_the_waiting_calls() {
    on_a_reactor(async {
        let open = Arc::new(Notify::new());
        let failures = Arc::new(AtomicUsize::new(1));
        let gate = Some((kind("rust"), Arc::clone(&open)));
        let backend = Threads { gate, failures, ..Threads::default() };
        let fleet = fleet(&backend, &["rust"], None).await;
        let mut calls: Vec<_> = (0..5).map(|_| Box::pin(call(&fleet, "rust"))).collect();
        for call in &mut calls {
            let waits = tokio::time::timeout(Duration::ZERO, call).await;
            assert!(waits.is_err(), "it waits for the start");
        }
        open.notify_one();
        for call in calls {
            let error = call.await.unwrap_err();
            assert_eq!(error.to_string(), "cannot start the rust sidecar: no luck");
        }
        assert_eq!(backend.counts.starts.load(Ordering::SeqCst), 1);
        open.notify_one();
        assert!(ended(&call(&fleet, "rust").await.unwrap()), "the next one tries again");
        assert_eq!(backend.counts.starts.load(Ordering::SeqCst), 2);
        fleet.stop().await;
        let error = call(&fleet, "rust").await.unwrap_err();
        assert_eq!(error.to_string(), "no rust sidecar runs in this session", "it is over");
    });
}

#[test]
fn if_one_of_the_initial_starts_fails_the_others_are_stopped() {
    on_a_reactor(async {
        let (events, label) =
            (Arc::new(Mutex::new(Vec::new())), |event: SidecarEvent<'_>| match event {
                SidecarEvent::Starting => "starting",
                SidecarEvent::Ready(_) => "ready",
                SidecarEvent::Failed(_) => "failed",
                SidecarEvent::Line(_) | SidecarEvent::Idle(_) | SidecarEvent::Outdated(_) => "else",
            });
        let failures = Arc::new(AtomicUsize::new(1));
        let backend = Threads { failures, ..Threads::default() };
        let reporter = Reporter::new({
            let events = Arc::clone(&events);
            move |kind, event| events.lock().unwrap().push(format!("{kind} {}", label(event)))
        });
        let kinds = ["rust", "go"].map(kind).to_vec();
        let (sidecars, host) = (Box::new(backend.clone()), Box::new(Threads::default()));
        let started = Fleet::start(sidecars, host, kinds, Startup::default(), reporter).await;
        assert_eq!(started.unwrap_err().to_string(), "cannot start the rust sidecar: no luck");
        let mut events = events.lock().unwrap().clone();
        events.sort();
        assert_eq!(events, ["go ready", "go starting", "rust failed", "rust starting"]);
    });
}

/// The idle timeout is as short as a call, so that runners are retired all the time.
#[test]
fn no_call_is_lost_or_run_twice_while_sidecars_start_and_stop() {
    const CALLERS: usize = 8;
    const CALLS: usize = 250;
    on_a_reactor(async {
        let refusals = Arc::new(AtomicUsize::new(40));
        let backend = Threads { refusals, ..Threads::default() };
        let fleet = fleet(&backend, &["rust"], Some(Duration::from_micros(200))).await;
        let callers = (0..CALLERS).map(|caller| {
            let fleet = Arc::clone(&fleet);
            tokio::spawn(async move {
                for number in 0..CALLS {
                    let ending = call(&fleet, "rust").await;
                    let ending =
                        ending.unwrap_or_else(|error| panic!("{caller} {number}: {error}"));
                    assert!(ended(&ending), "{caller} {number}: {ending:?}");
                    // Pauses of different lengths, some of them longer than the idle timeout.
                    let pause = (caller * 7 + number * 13) % 23;
                    tokio::time::sleep(Duration::from_micros(pause as u64 * 150)).await;
                }
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.unwrap();
        }
        let mut running = fleet.running();
        running.wait_for(|running| running.is_empty()).await.unwrap();
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        let Counts { starts, execs, retired, stayed, too_late } = &*backend.counts;
        assert_eq!(count(execs), CALLERS * CALLS, "each call once");
        assert_eq!(count(too_late), 0, "none was sent to a runner that had gone");
        assert_eq!(count(starts), count(retired), "each has gone of its own accord");
        assert!(count(starts) > 5, "they did come and go: {}", count(starts));
        assert!(count(stayed) > 0, "and some stayed");
        fleet.stop().await;
    });
}
