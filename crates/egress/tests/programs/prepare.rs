//! Preparations and sources of the programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::world::World;

/// It is often not in PATH.
pub(crate) const SSHD: &[&str] = &["sh", "-c", "PATH=$PATH:/usr/sbin command -v sshd"];

pub(crate) fn write_ssh_wrapper(home: &Path, world: &World) {
    let script = format!(
        "#!/bin/sh\nexec ssh -F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=known -o BatchMode=yes \
         -i {}/user \"$@\"\n",
        world.dir.display()
    );
    fs::write(home.join("ssh"), script).unwrap();
    fs::set_permissions(home.join("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
}

pub(crate) fn prepare_java(home: &Path, world: &World, program: &str) {
    fs::write(home.join("Get.java"), program).unwrap();
    let words = "-importcert -noprompt -alias ca -keystore trust.p12 -storepass changeit -file";
    let mut keytool = Command::new("keytool");
    keytool.args(words.split(' ')).arg(world.dir.join("ca.pem")).current_dir(home);
    let imported = keytool.output().unwrap();
    assert!(imported.status.success(), "{imported:?}");
}

pub(crate) const GO_PROGRAM: &str = r#"package main

import ("io"; "net/http"; "os")

func main() {
	response, err := http.Get(os.Args[1])
	if err != nil { os.Stderr.WriteString(err.Error()); os.Exit(1) }
	io.Copy(os.Stdout, response.Body)
}
"#;

pub(crate) const C_PROGRAM: &str = r#"
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words) {
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
    int error = getaddrinfo(words[1], "80", &hints, &found);
    if (error) { fprintf(stderr, "%s: %s\n", words[1], gai_strerror(error)); return 1; }
    int fd = socket(found->ai_family, found->ai_socktype, 0);
    if (connect(fd, found->ai_addr, found->ai_addrlen)) { perror("connect"); return 1; }
    dprintf(fd, "GET /hello.txt HTTP/1.0\r\nHost: %s\r\n\r\n", words[1]);
    char bytes[4096];
    for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) > 0;) write(1, bytes, n);
    return 0;
}
"#;

pub(crate) const JAVA_HTTP_CLIENT: &str = r#"
import java.net.URI;
import java.net.http.*;
public class Get {
    public static void main(String[] words) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(words[0])).build();
        System.out.print(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
    }
}
"#;

pub(crate) const JAVA_URL_CONNECTION: &str = r#"
public class Get {
    public static void main(String[] words) throws Exception {
        new java.net.URL(words[0]).openConnection().getInputStream().transferTo(System.out);
    }
}
"#;

pub(crate) const POM: &str = "<project><modelVersion>4.0.0</modelVersion>
<parent><groupId>test</groupId><artifactId>hello</artifactId><version>1</version><relativePath/></parent>
<artifactId>user</artifactId><packaging>pom</packaging>
<repositories><repository><id>central</id><url>https://NAME/maven</url></repository></repositories>
</project>";
