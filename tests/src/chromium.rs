//! Headless Chromium, driven through chromedriver by the WebDriver protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    DEADLINE, Scratch, Signal, TestNetwork, can_run, eventually, processes_using, send_signal,
};

/// A browser with a profile of its own. Dropping it kills the browser and its driver.
#[derive(Debug)]
pub struct Chromium {
    driver: Child,
    port: u16,
    session: String,
    scratch: Scratch,
}

/// Keys of the WebDriver protocol.
pub mod keys {
    /// Alt, held until [`RELEASE`].
    pub const ALT: char = '\u{e00a}';
    /// Enter.
    pub const ENTER: char = '\u{e007}';
    /// Shift, held until [`RELEASE`].
    pub const SHIFT: char = '\u{e008}';
    /// Tab.
    pub const TAB: char = '\u{e004}';
    /// Releases all held keys.
    pub const RELEASE: char = '\u{e000}';
}

impl Chromium {
    /// Starts a browser. `None` if Chromium or chromedriver is missing; `test` is then reported as
    /// skipped.
    #[track_caller]
    pub fn start(test: &str) -> Option<Self> {
        is_installed(test).then(|| Self::launch(&[]))
    }

    /// Starts a browser that reaches servers of this machine through a [`TestNetwork`].
    #[track_caller]
    pub fn start_behind_network(test: &str) -> Option<Self> {
        let map = format!("--host-resolver-rules=MAP *.localhost {}", TestNetwork::ADDRESS);
        is_installed(test).then(|| Self::launch(&[&map]))
    }

    #[track_caller]
    fn launch(flags: &[&str]) -> Self {
        let scratch = Scratch::new();
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .env("HOME", scratch.path())
            .env("TMPDIR", scratch.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let mut stdout = BufReader::new(driver.stdout.take().expect("it is a pipe"));
        let mut browser = Chromium { driver, port: 0, session: String::new(), scratch };
        browser.port = driver_port(&mut stdout);
        // The driver writes on; a closed pipe would end it.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        let profile = format!("--user-data-dir={}", browser.scratch.path().join("user").display());
        let mut args: Vec<&str> = FLAGS.to_vec();
        args.push(&profile);
        args.extend(flags);
        let wanted = json!({"browserName": "chrome", "goog:chromeOptions": {"args": args}});
        let body = json!({"capabilities": {"alwaysMatch": wanted}});
        let opened = browser.send("POST", "/session", &body).unwrap_or_else(|e| panic!("{e}"));
        browser.session = opened["sessionId"].as_str().expect("an id").to_owned();
        browser.command(
            "timeouts",
            &json!({"script": PATIENCE.as_millis(), "pageLoad": PATIENCE.as_millis()}),
        );
        browser
    }

    /// Opens an address.
    #[track_caller]
    pub fn open(&self, url: &str) {
        self.command("url", &json!({"url": url}));
    }

    /// Loads the page again.
    #[track_caller]
    pub fn reload(&self) {
        self.command("refresh", &json!({}));
    }

    /// Runs a function body in the page and returns its value.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Runs a function body in the page that passes its value to `done`.
    #[track_caller]
    pub fn run_async(&self, script: &str) -> Value {
        let script = format!("const done = arguments[arguments.length - 1];\n{script}");
        self.command("execute/async", &json!({"script": script, "args": []}))
    }

    /// Waits until an expression is true in the page.
    #[track_caller]
    pub fn wait(&self, what: &str, expression: &str) {
        self.wait_for(PATIENCE, what, expression);
    }

    /// Waits this long until an expression is true in the page.
    #[track_caller]
    pub fn wait_for(&self, deadline: Duration, what: &str, expression: &str) {
        let begin = Instant::now();
        while self.run(&format!("return Boolean({expression})")) != true {
            if begin.elapsed() > deadline {
                panic!("timed out: {what}: {}", self.run("return document.body.innerText"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until an element is shown that matches a selector and has this text.
    #[track_caller]
    pub fn wait_text(&self, selector: &str, text: &str) {
        let expression = format!(
            "[...document.querySelectorAll({})].some((found) => \
             found.checkVisibility() && found.textContent.includes({}))",
            json!(selector),
            json!(text)
        );
        self.wait(&format!("'{text}' in '{selector}'"), &expression);
    }

    /// Clicks the first element that matches a selector, again if the page replaces it meanwhile.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        eventually(&format!("a click on {selector}"), || {
            let element = self.element(selector);
            let path = format!("/session/{}/element/{element}/click", self.session);
            match self.send("POST", &path, &json!({})) {
                Ok(_) => true,
                Err(error) if error.contains("stale element") => false,
                Err(error) => panic!("{path}: {error}"),
            }
        });
    }

    /// Types into the first element that matches a selector.
    #[track_caller]
    pub fn write(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.command(&format!("element/{element}/value"), &json!({"text": text}));
    }

    /// Presses keys in order and releases them in the reverse order.
    #[track_caller]
    pub fn press(&self, pressed: &[char]) {
        let action = |kind: &str, key: &char| json!({"type": kind, "value": key});
        let mut actions: Vec<Value> = pressed.iter().map(|key| action("keyDown", key)).collect();
        actions.extend(pressed.iter().rev().map(|key| action("keyUp", key)));
        self.command(
            "actions",
            &json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}),
        );
    }

    /// Shows the page in a window of this size.
    #[track_caller]
    pub fn resize(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Shows the page on a phone of this size, with touch.
    #[track_caller]
    pub fn be_a_phone(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 2, "mobile": true});
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
        self.devtools("Emulation.setTouchEmulationEnabled", &json!({"enabled": true}));
    }

    /// Sets the preferred colour scheme: `light` or `dark`.
    #[track_caller]
    pub fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// Returns the processor time of the page's main thread, in milliseconds, from the first call on.
    #[track_caller]
    pub fn processor_ms(&self) -> f64 {
        self.devtools("Performance.enable", &json!({"timeDomain": "threadTicks"}));
        let metrics = self.devtools("Performance.getMetrics", &json!({}));
        let mut metrics = metrics["metrics"].as_array().into_iter().flatten();
        let busy = metrics.find(|metric| metric["name"] == "TaskDuration");
        busy.and_then(|metric| metric["value"].as_f64()).expect("a duration") * 1000.0
    }

    /// Saves a screenshot in the directory of `AIFO_TEST_SCREENSHOTS`, if it is set.
    #[track_caller]
    pub fn screenshot(&self, name: &str) {
        let Some(dir) = std::env::var_os("AIFO_TEST_SCREENSHOTS") else { return };
        let path = Path::new(&dir).join(format!("{name}.png"));
        let shot = self.devtools("Page.captureScreenshot", &json!({"format": "png"}));
        let mut base64 = Command::new("base64")
            .arg("--decode")
            .stdin(Stdio::piped())
            .stdout(std::fs::File::create(&path).expect("a file"))
            .spawn()
            .expect("base64 starts");
        let data = shot["data"].as_str().expect("an image");
        base64.stdin.take().expect("a pipe").write_all(data.as_bytes()).expect("it reads");
        assert!(base64.wait().expect("it ends").success());
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        let found = self.command("element", &json!({"using": "css selector", "value": selector}));
        let id = found.as_object().and_then(|found| found.values().next());
        id.and_then(Value::as_str).expect("an element").to_owned()
    }

    /// Sends a command of the DevTools protocol.
    #[track_caller]
    fn devtools(&self, command: &str, params: &Value) -> Value {
        self.command("goog/cdp/execute", &json!({"cmd": command, "params": params}))
    }

    /// Sends a command of the session and returns its value.
    #[track_caller]
    fn command(&self, path: &str, body: &Value) -> Value {
        let path = format!("/session/{}/{path}", self.session);
        self.send("POST", &path, body).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let answer = exchange(self.port, method, path, &body.to_string());
        let value: Value = answer
            .map_err(|e| e.to_string())
            .and_then(|text| serde_json::from_str(&text).map_err(|e| format!("{e}: {text}")))?;
        match value["value"].get("error") {
            Some(error) => Err(format!("{error}: {}", value["value"]["message"])),
            None => Ok(value["value"].clone()),
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.send("DELETE", &format!("/session/{}", self.session), &json!({}));
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        // Those that a failed test leaves, before their directory is removed.
        let begin = Instant::now();
        loop {
            let left = processes_using(self.scratch.path());
            if left.is_empty() || begin.elapsed() > DEADLINE {
                return;
            }
            left.iter().for_each(|(pid, _)| send_signal(*pid, Signal::SIGKILL));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// False if Chromium or chromedriver is missing; `test` is then reported as skipped.
fn is_installed(test: &str) -> bool {
    can_run(test, &["chromedriver", "--version"]) && can_run(test, &["chromium", "--version"])
}

/// The port in the driver's greeting.
#[track_caller]
fn driver_port(stdout: &mut impl BufRead) -> u16 {
    let mut line = String::new();
    loop {
        line.clear();
        let read = stdout.read_line(&mut line).expect("chromedriver's output");
        assert!(read > 0, "chromedriver ended");
        let port = line.trim_end().rsplit_once("successfully on port ");
        if let Some((_, port)) = port {
            return port.trim_end_matches('.').parse().expect("a port");
        }
    }
}

/// Sends a request and returns the response's body.
fn exchange(port: u16, method: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    // The driver's own timeouts are shorter.
    stream.set_read_timeout(Some(2 * PATIENCE))?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            if line.trim_end().is_empty() {
                break;
            }
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// A deadline in the page for a loaded machine, where a check by axe-core takes over a minute.
const PATIENCE: Duration = Duration::from_secs(240);

/// Chromium's flags: no window, and no request to its maker's servers.
const FLAGS: [&str; 11] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--disable-default-apps",
    "--window-size=1200,860",
];
