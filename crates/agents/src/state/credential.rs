//! An agent's login, the same in the user's file and in the agent's copy.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use std::{fs, io};

use aifo_host::{Beneath, Found, Stamp};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use serde_json::Value;

use super::phantoms::{Phantoms, hash};
use super::{lock_file, lock_within};
use crate::agents::StateFile;

/// One login file and its copy.
#[derive(Debug)]
pub(super) struct Credential {
    file: StateFile,
    users: Beneath,
    own: Beneath,
    /// Held while the files are compared and written, by all sessions of this agent.
    lock: PathBuf,
    /// Has the hash of the login that both files had last.
    synced: PathBuf,
    /// The keys of the user's login that the copy does not have.
    phantoms: Phantoms,
    /// The files after the last comparison.
    seen: Mutex<Option<[Option<Stamp>; 2]>>,
}

/// The time of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before the agent starts, which gets the user's login if it has none.
    Start,
    Running,
    End,
}

/// The login in one of the files.
#[derive(Clone)]
enum Login {
    /// There is no file, or one with settings only.
    Missing(Option<(Value, Stamp)>),
    /// Nothing is copied from it.
    Damaged(&'static str),
    Valid {
        selected: Value,
        document: Value,
        bytes: Vec<u8>,
        stamp: Stamp,
    },
}

/// The side whose login is copied.
enum Newer {
    Users,
    Own,
    Neither,
}

impl Credential {
    pub(super) fn new(
        file: StateFile,
        users: Beneath,
        own: Beneath,
        lock: PathBuf,
        synced: PathBuf,
        phantoms: Phantoms,
    ) -> Self {
        Credential { file, users, own, lock, synced, phantoms, seen: Mutex::new(None) }
    }

    /// Compares the files if one has changed. An error is tried again at the next time.
    pub(super) fn poll(&self) {
        let now = self.stamps();
        if self.seen.lock().is_ok_and(|seen| *seen == Some(now)) {
            return;
        }
        if let Err(error) = self.sync(Moment::Running) {
            tracing::debug!("cannot copy '{}': {error}", self.file.from.display());
        }
    }

    /// Compares the files and copies the newer login; a failure is a warning.
    pub(super) fn sync_or_warn(&self, moment: Moment) {
        if let Err(error) = self.sync(moment) {
            tracing::warn!("cannot copy the login '~/{}': {error}", self.file.from.display());
        }
    }

    /// Compares the files and copies the newer login. Errors: of the system.
    pub(super) fn sync(&self, moment: Moment) -> io::Result<()> {
        let lock = lock_file(&self.lock)?;
        let _lock = match moment {
            Moment::Running => match Flock::lock(lock, FlockArg::LockExclusiveNonblock) {
                Err((_, Errno::EAGAIN)) => return Ok(()),
                locked => locked.ok(),
            },
            Moment::Start | Moment::End => lock_within(lock, FlockArg::LockExclusiveNonblock)?,
        };
        let stamps = self.stamps();
        let users = self.login(&self.users, &self.file.from);
        let raw = self.login(&self.own, &self.file.to);
        let own = self.revealed(&raw, &users);
        if moment != Moment::Running {
            for (login, place) in [(&users, "~/"), (&own, "the state's ")] {
                let Login::Damaged(why) = login else { continue };
                let path = self.file.from.display();
                tracing::warn!("the login '{place}{path}' is not copied: it {why}");
            }
        }
        match self.newer(&users, &own, moment) {
            Newer::Users => self.copy_to_own(&users, &raw)?,
            Newer::Own => {
                self.copy(&own, (&self.users, &self.file.from), &users)?;
                if moment == Moment::Start {
                    self.copy_to_own(&own, &raw)?;
                }
            }
            Newer::Neither => {
                if moment == Moment::Start {
                    self.copy_to_own(&own, &raw)?;
                }
                if let (Login::Valid { selected, .. }, Login::Valid { selected: other, .. }) =
                    (&users, &own)
                    && selected == other
                {
                    self.record(selected)?;
                }
                self.set_seen(stamps);
                return Ok(());
            }
        }
        // The other side may have changed since, so the next poll compares again.
        Ok(())
    }

    /// Decides by the login that both had last; if both have changed since, by time.
    fn newer(&self, users: &Login, own: &Login, moment: Moment) -> Newer {
        let last = fs::read_to_string(&self.synced).ok();
        let is_changed = |login: &Value| last.as_deref() != Some(hash(login).as_str());
        match (users, own) {
            (
                Login::Valid { selected: users, stamp: users_stamp, .. },
                Login::Valid { selected: own, stamp: own_stamp, .. },
            ) => match (is_changed(users), is_changed(own)) {
                _ if users == own => Newer::Neither,
                (true, false) => Newer::Users,
                (false, true) => Newer::Own,
                _ if own_stamp.modified > users_stamp.modified => Newer::Own,
                _ => Newer::Users,
            },
            (Login::Valid { selected, .. }, Login::Missing(_) | Login::Damaged(_))
                if moment == Moment::Start || is_changed(selected) =>
            {
                Newer::Users
            }
            // A login that the user has removed stays removed.
            (Login::Missing(_), Login::Valid { selected, .. }) if is_changed(selected) => {
                Newer::Own
            }
            _ => Newer::Neither,
        }
    }

    /// Returns the agent's login with the user's keys in place of phantom keys.
    fn revealed(&self, own: &Login, users: &Login) -> Login {
        let mut revealed = own.clone();
        let users = match users {
            Login::Valid { selected, .. } => Some(selected),
            Login::Missing(_) | Login::Damaged(_) => None,
        };
        if let Login::Valid { selected, document, stamp, .. } = &mut revealed
            && !self.phantoms.reveal(selected, users)
        {
            return Login::Missing(Some((document.clone(), *stamp)));
        }
        revealed
    }

    /// Copies a login into the agent file, with phantom keys, unless it is there.
    fn copy_to_own(&self, from: &Login, raw: &Login) -> io::Result<()> {
        let mut hidden = from.clone();
        if let Login::Valid { selected, .. } = &mut hidden {
            let real = selected.clone();
            *selected = self.phantoms.hide(selected)?;
            if !matches!(raw, Login::Valid { selected: there, .. } if there == selected) {
                self.copy(&hidden, (&self.own, &self.file.to), raw)?;
            }
            self.record(&real)?;
        }
        Ok(())
    }

    fn copy(&self, from: &Login, to: (&Beneath, &Path), old: &Login) -> io::Result<()> {
        let Login::Valid { selected, bytes, .. } = from else { return Ok(()) };
        let (rest, expected) = match old {
            Login::Valid { document, stamp, .. } | Login::Missing(Some((document, stamp))) => {
                (Some(document), Some(Some(*stamp)))
            }
            Login::Missing(None) => (None, Some(None)),
            Login::Damaged(_) => (None, None),
        };
        let rendered = match self.file.is_whole() {
            true => bytes.clone(),
            false => {
                let rest = rest.cloned().unwrap_or_else(|| serde_json::json!({}));
                self.file.format.render(&self.file.replace(&rest, selected))
            }
        };
        to.0.replace(to.1, &rendered, expected)?;
        self.record(selected)
    }

    fn login(&self, beneath: &Beneath, path: &Path) -> Login {
        let (bytes, stamp) = match beneath.read(path, MAX_BYTES) {
            Found::Missing => return Login::Missing(None),
            Found::Rejected(why) => return Login::Damaged(why),
            Found::File(bytes, stamp) => (bytes, stamp),
        };
        let Some(document) = self.file.format.parse(&bytes) else {
            return Login::Damaged("is damaged");
        };
        match self.file.select_strictly(&document) {
            Err(_) => Login::Damaged("has a kind of login that is not shared"),
            Ok(selected) if selected.as_object().is_none_or(|it| it.is_empty()) => {
                Login::Missing(Some((document, stamp)))
            }
            Ok(selected) => Login::Valid { selected, document, bytes, stamp },
        }
    }

    fn record(&self, login: &Value) -> io::Result<()> {
        let hash = hash(login);
        if fs::read_to_string(&self.synced).is_ok_and(|last| last == hash) {
            return Ok(());
        }
        fs::write(&self.synced, hash)
    }

    fn stamps(&self) -> [Option<Stamp>; 2] {
        [self.users.stamp(&self.file.from), self.own.stamp(&self.file.to)]
    }

    /// Records files that were compared, unless they are so new that a further change may have the
    /// same time.
    fn set_seen(&self, stamps: [Option<Stamp>; 2]) {
        let is_settled = |stamp: &Stamp| stamp.modified.elapsed().is_ok_and(|age| age > SETTLED);
        if stamps.iter().flatten().all(is_settled)
            && let Ok(mut seen) = self.seen.lock()
        {
            *seen = Some(stamps);
        }
    }
}

/// Longer than the resolution of any file system's times.
const SETTLED: Duration = Duration::from_secs(2);
/// Logins have a few kilobytes.
const MAX_BYTES: u64 = 64 << 10;
