//! Real programs in a served stack, without any variable of a proxy: each one reaches an allowed name, and
//! fails clearly for a refused one.
//!
//! The programs are those of this machine. They run in a network namespace with loopback only; the servers
//! of the test are outside of it, at an address of loopback, with a CA of the test. A test without its
//! program is skipped, by name on stderr, as are all without root.

mod stack;

#[path = "programs/prepare.rs"]
mod prepare;
#[path = "programs/world.rs"]
mod world;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use aifo_egress::{ConnectionError, ConnectionEvent, NameVerdict, Phase};
use prepare::{
    C_PROGRAM, GO_PROGRAM, JAVA_HTTP_CLIENT, JAVA_URL_CONNECTION, POM, SSHD, prepare_java,
    write_ssh_wrapper,
};
use world::{DEADLINE, World, find, world};

macro_rules! programs {
    ($($name:ident { $($field:ident: $value:expr),* $(,)? })*) => {
        $(
            #[test]
            fn $name() {
                Program {
                    name: stringify!($name),
                    $($field: $value,)*
                    ..PROGRAM
                }
                .test();
            }
        )*
    };
}

programs! {
    curl { needs: &["curl"], words: &["curl", "-sS", "https://HOST/hello.txt"] }
    wget {
        needs: &["wget"],
        words: &["wget", "-nv", "-O", "-", "--ca-certificate=DIR/ca.pem", "https://HOST/hello.txt"],
    }
    git_https {
        needs: &["git"],
        words: &["git", "clone", "https://HOST/repository.git", "clone-HOST"],
        expected: "Cloning into 'clone-git-https.allowed.test'",
    }
    git_ssh {
        needs: &["git", "ssh"],
        requires: SSHD,
        prepare: write_ssh_wrapper,
        words: &[
            "git", "-c", "core.sshCommand=./ssh", "clone",
            "ssh://root@HOST/DIR/root/repository.git", "clone-HOST",
        ],
        expected: "Cloning into 'clone-git-ssh.allowed.test'",
    }
    ssh {
        needs: &["ssh"],
        requires: SSHD,
        prepare: write_ssh_wrapper,
        words: &["./ssh", "root@HOST", "echo hello from the server"],
    }
    cargo {
        needs: &["cargo", "rustc"],
        prepare: |home, _| {
            fs::create_dir_all(home.join("src")).unwrap();
            fs::write(home.join("src/lib.rs"), "").unwrap();
            fs::write(
                home.join("Cargo.toml"),
                "[package]\nname = \"user\"\n[dependencies]\nhello = { version = \"0.1\", registry = \"test\" }\n[workspace]\n",
            ).unwrap();
        },
        words: &[
            "cargo", "--config", "registries.test.index='sparse+https://HOST/cargo/'", "fetch",
        ],
        expected: "Downloaded hello v0.1.0",
    }
    npm {
        needs: &["npm"],
        words: &[
            "npm", "install", "--registry", "https://HOST/HOST/", "--fetch-retries", "0", "hello",
        ],
        expected: "added 1 package",
    }
    pnpm {
        needs: &["pnpm"],
        words: &["sh", "-c", "mkdir HOST && cd HOST && pnpm add --registry https://HOST/HOST/ --store-dir store \
            --config.cache-dir=cache --config.fetch-retries=0 hello"],
        expected: "+ hello 0.1.0",
    }
    node_fetch {
        needs: &["node"],
        requires: &["node", "-e", "fetch"],
        words: &[
            "node", "-e",
            "fetch('https://HOST/hello.txt').then(r => r.text()).then(console.log, e => { console.log(e); process.exit(1) })",
        ],
    }
    node_https {
        needs: &["node"],
        words: &[
            "node", "-e",
            "require('https').get('https://HOST/hello.txt', r => r.pipe(process.stdout))",
        ],
    }
    pip {
        needs: &["pip"],
        words: &[
            "pip", "install", "--retries", "0", "--target", "HOST", "--index-url",
            "https://HOST/simple/", "hello",
        ],
        expected: "Successfully installed hello-0.1.0",
        refused: "No matching distribution found",
    }
    uv {
        needs: &["uv"],
        words: &[
            "uv", "pip", "install", "--native-tls", "--target", "HOST", "--index-url",
            "https://HOST/simple/", "hello",
        ],
        expected: "+ hello==0.1.0",
    }
    requests {
        needs: &["python3"],
        requires: &["python3", "-c", "import requests"],
        words: &[
            "python3", "-c", "import requests; print(requests.get('https://HOST/hello.txt').text)",
        ],
    }
    aiohttp {
        needs: &["python3"],
        requires: &["python3", "-c", "import aiohttp"],
        words: &["python3", "-c", "
import aiohttp, asyncio
async def main():
    async with aiohttp.ClientSession() as session:
        async with session.get('https://HOST/hello.txt') as response:
            print(await response.text())
asyncio.run(main())"],
    }
    go_get {
        needs: &["go"],
        prepare: |home, _| fs::write(home.join("go.mod"), "module user\n\ngo 1.18\n").unwrap(),
        words: &["env", "GOFLAGS=-modcacherw", "GOSUMDB=off", "GOPROXY=https://HOST/go", "GOMODCACHE=DIR/HOST-go", "go", "get",
            "example.test/hello@v0.1.0"],
        expected: "added example.test/hello v0.1.0",
    }
    go_static_binary {
        needs: &["go"],
        prepare: |home, _| {
            fs::write(home.join("get.go"), GO_PROGRAM).unwrap();
            let mut build = Command::new("go");
            build.args(["build", "-o", "get", "get.go"]).current_dir(home);
            build.env("CGO_ENABLED", "0").env("GOCACHE", home.join("cache")).env("GO111MODULE", "off");
            let built = build.output().unwrap();
            assert!(built.status.success(), "{built:?}");
        },
        words: &["./get", "https://HOST/hello.txt"],
    }
    musl_static_binary {
        needs: &["musl-gcc"],
        prepare: |home, _| {
            fs::write(home.join("get.c"), C_PROGRAM).unwrap();
            let mut build = Command::new("musl-gcc");
            let built = build.args(["-static", "-o", "get", "get.c"]).current_dir(home).output().unwrap();
            assert!(built.status.success(), "{built:?}");
        },
        words: &["./get", "HOST"],
    }
    java_http_client {
        needs: &["java", "javac", "keytool"],
        prepare: |home, world| prepare_java(home, world, JAVA_HTTP_CLIENT),
        words: &[
            "java", "-Djavax.net.ssl.trustStore=trust.p12",
            "-Djavax.net.ssl.trustStorePassword=changeit", "Get.java", "https://HOST/hello.txt",
        ],
        refused: "ConnectException",
    }
    java_url_connection {
        needs: &["java", "javac", "keytool"],
        prepare: |home, world| prepare_java(home, world, JAVA_URL_CONNECTION),
        words: &[
            "java", "-Djavax.net.ssl.trustStore=trust.p12",
            "-Djavax.net.ssl.trustStorePassword=changeit", "Get.java", "https://HOST/hello.txt",
        ],
    }
    maven {
        needs: &["mvn", "keytool"],
        prepare: |home, world| {
            prepare_java(home, world, "");
            fs::write(home.join("pom.in"), POM).unwrap();
        },
        words: &["sh", "-c", "sed s/NAME/HOST/ pom.in > pom.xml && mvn -B -Dmaven.repo.local=HOST \
            -Djavax.net.ssl.trustStore=trust.p12 -Djavax.net.ssl.trustStorePassword=changeit validate"],
        expected: "BUILD SUCCESS",
    }
    ruby {
        needs: &["ruby"],
        words: &["ruby", "-rnet/http", "-e", "puts Net::HTTP.get(URI('https://HOST/hello.txt'))"],
    }
    perl {
        needs: &["perl"],
        requires: &["perl", "-MHTTP::Tiny", "-e", "1"],
        words: &[
            "perl", "-MHTTP::Tiny", "-e",
            "print HTTP::Tiny->new->get('http://HOST/hello.txt')->{content}",
        ],
    }
    php {
        needs: &["php"],
        words: &[
            "php", "-d", "openssl.cafile=DIR/ca.pem", "-r",
            "echo file_get_contents('https://HOST/hello.txt');",
        ],
    }
    psql {
        needs: &["psql"],
        words: &[
            "psql", "-At", "-c", "select 'hello'",
            "host=HOST user=a dbname=a sslmode=disable gssencmode=disable",
        ],
        expected: "hello",
    }
    redis_cli { needs: &["redis-cli"], words: &["redis-cli", "-h", "HOST", "ping"], expected: "PONG" }
    apt {
        needs: &["apt-get"],
        prepare: |home, _| {
            for name in ["lists/partial", "cache/archives/partial"] {
                fs::create_dir_all(home.join(name)).unwrap();
            }
            fs::write(home.join("status"), "").unwrap();
        },
        words: &["sh", "-c", "echo 'deb [trusted=yes] http://HOST/debian ./' > list && \
            apt-get -o Dir::State=$PWD -o Dir::State::status=$PWD/status -o Dir::Cache=$PWD/cache \
            -o Dir::Etc::sourcelist=$PWD/list -o Dir::Etc::sourceparts=- -o Dir::Etc::main=/dev/null \
            -o Dir::Etc::parts=- -o APT::Sandbox::User=root -o Acquire::Retries=0 \
            -o APT::Update::Error-Mode=any update && apt-cache -o Dir::State=$PWD -o Dir::Cache=$PWD/cache \
            -o Dir::State::status=$PWD/status -o Dir::Etc::sourcelist=$PWD/list \
            -o Dir::Etc::sourceparts=- show hello"],
        expected: "Description: hello",
    }
    chromium {
        needs: &["chromium"],
        words: &[
            "chromium", "--headless", "--no-sandbox", "--disable-gpu",
            "--ignore-certificate-errors", "--user-data-dir=profile", "--dump-dom",
            "https://HOST/hello.txt",
        ],
        refused: "net::ERR_INTERNET_DISCONNECTED",
    }
}

/// A program of this machine.
struct Program {
    /// Of the test, and of the names that it asks for.
    name: &'static str,
    /// Must be in PATH.
    needs: &'static [&'static str],
    /// Must succeed outside of the stack, such as for a library.
    requires: &'static [&'static str],
    /// Prepares the program's directory.
    prepare: fn(&Path, &World),
    words: &'static [&'static str],
    /// Part of the output for the allowed name.
    expected: &'static str,
    /// Part of the output for the refused name.
    refused: &'static str,
}

const PROGRAM: Program = Program {
    name: "",
    needs: &[],
    requires: &[],
    prepare: |_, _| {},
    words: &[],
    expected: "hello from the server",
    refused: ".refused.test",
};

impl Program {
    fn test(&self) {
        let name = &*self.name.replace('_', "-");
        let missing = self.needs.iter().find(|program| find(program).is_none());
        if let Some(program) = missing {
            return eprintln!("skipped: {name}: no {program}");
        }
        if let [program, words @ ..] = self.requires {
            let output = Command::new(program).args(words).output();
            if !output.is_ok_and(|output| output.status.success()) {
                return eprintln!("skipped: {name}: '{}' fails", self.requires.join(" "));
            }
        }
        let world = match world() {
            Ok(world) => world,
            Err(reason) => return eprintln!("skipped: {name}: {reason}"),
        };
        let home = world.dir.join("homes").join(name);
        fs::create_dir_all(&home).unwrap();
        (self.prepare)(&home, world);
        let text = |output: &Output| {
            String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
        };

        let allowed = format!("{name}.allowed.test");
        let output = world.run(name, &allowed, self.words);
        assert!(output.status.success(), "{name}: {}\n{}", output.status, text(&output));
        assert!(text(&output).contains(self.expected), "{name}:\n{}", text(&output));
        let opened = |event: &ConnectionEvent| event.phase == Phase::Opened;
        assert!(world.stack.events(&allowed).iter().any(opened), "{name}: through the gateway");

        let refused = format!("{name}.refused.test");
        let began = Instant::now();
        let output = world.run(name, &refused, self.words);
        assert!(!text(&output).contains(self.expected), "{name}:\n{}", text(&output));
        assert!(text(&output).contains(self.refused), "{name}: the cause:\n{}", text(&output));
        assert!(began.elapsed() < DEADLINE / 2, "{name}: after {:?}", began.elapsed());
        let events = world.stack.events(&refused);
        assert!(!events.is_empty(), "{name}: the name was looked up");
        for event in events {
            assert_eq!(event.verdict, NameVerdict::Refused, "{name}");
            assert_eq!(event.error, Some(ConnectionError::NoRule), "{name}");
        }
    }
}
