//! Renews the lock file.

use std::io::Write;

use crate::images::build::{BaseChoice, BuildOptions, Builder};
use crate::images::error::ImageError;
use crate::images::host::Host;
use crate::images::lock::Lock;
use crate::images::recipe::{BaseImage, Packages, Recipe};
use crate::images::recipes::{BuildRequest, ordered, recipes};
use crate::images::registry;
use crate::images::resolve::resolve;
use crate::images::scratch::scratch;

/// Renews the entries of the named images, or of all, and writes a line for each. A base that was not
/// named keeps its entry. A registry that does not answer is reported, and the bases' digests stay.
///
/// Images on which a resolution runs are built. `save` is called after each change.
pub fn update(
    host: &Host,
    lock: &mut Lock,
    options: &BuildOptions,
    out: &mut dyn Write,
    mut save: impl FnMut(&Lock) -> Result<(), ImageError>,
) -> Result<(), ImageError> {
    let all = ["toolchains".to_owned(), "agents".to_owned()];
    let is_all = options.names.is_empty();
    let requests = ordered(if is_all { &all } else { &options.names })?;
    let scratch = scratch()?;
    let mut builder = Builder::new(host, options, scratch.path(), out);
    let is_named = |recipe: &Recipe| {
        let names = options.names.iter().map(|name| name.split('@').next().unwrap_or_default());
        let mut names = names.map(|name| ordered(&[name.to_owned()]));
        is_all
            || names
                .any(|named| named.is_ok_and(|it| it.last().is_some_and(|it| it.recipe == recipe)))
    };
    for (at, BuildRequest { recipe, version }) in requests.iter().enumerate() {
        if let (BaseImage::Debian(release), BaseChoice::Auto, true) =
            (&recipe.base, &options.base, is_named(recipe))
        {
            let name = registry::locked_name(release);
            match registry::newest_digest(host, release) {
                Ok(digest) => {
                    builder.log.line(&format!("{name}: {digest}"));
                    lock.set_digest(&name, digest);
                    save(lock)?;
                }
                Err(reason) => builder.log.line(&format!("{name}: not renewed: {reason}")),
            }
        }
        let base = builder.base(recipe, lock)?;
        let is_locked = lock.packages(recipe, version.as_deref(), options.command).is_ok();
        if is_own_entry(recipe) && (is_named(recipe) || !is_locked) {
            let before = lock.version(recipe).map(str::to_owned);
            if let Some(locked) = resolve(&mut builder, recipe, &base, version.as_deref())? {
                let count = locked.count();
                lock.set_packages(recipe, locked);
                let after = lock.version(recipe).unwrap_or_default();
                let change = match before {
                    Some(before) if before == after => after.to_owned(),
                    Some(before) => format!("{before} -> {after}"),
                    None => after.to_owned(),
                };
                let name = recipe.short_name();
                builder.log.line(&format!("{name}: {change} ({count} packages with hashes)"));
                save(lock)?;
            }
        }
        let later = requests.get(at + 1..).unwrap_or_default();
        if later.iter().any(|later| later.recipe.base == BaseImage::Recipe(recipe.name.clone())) {
            let locked = lock.packages(recipe, None, options.command)?.cloned();
            builder.image(recipe, locked.as_ref(), lock)?;
        }
    }
    Ok(())
}

/// Returns whether a recipe has packages, and is not another release's variant.
fn is_own_entry(recipe: &Recipe) -> bool {
    let is_variant = recipes().iter().any(|it| it.name == recipe.locked_as && it != recipe);
    recipe.packages != Packages::None && !is_variant
}
