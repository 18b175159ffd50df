//! What docs/guides/kubernetes.md tells people to write and to type, out of the page itself.

/// The page.
pub fn text() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/kubernetes.md");
    std::fs::read_to_string(path).expect("the guide")
}

/// Its blocks in a language, in order, without the indentation of the list they stand in.
pub fn blocks(language: &str) -> Vec<String> {
    blocks_of(&text(), language)
}

fn blocks_of(page: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for line in page.lines() {
        let fence = line.trim_start();
        match &mut open {
            None if fence.strip_prefix("```") == Some(language) => {
                open = Some((line.len() - fence.len(), String::new()));
            }
            None => {}
            Some(_) if fence == "```" => blocks.extend(open.take().map(|(_, text)| text)),
            Some((indented, text)) => {
                text.push_str(line.get(*indented..).unwrap_or_default());
                text.push('\n');
            }
        }
    }
    blocks
}

/// The objects that give access.
pub fn access() -> String {
    only("yaml", "kind: ClusterRole")
}

/// The commands that make a kubeconfig, for a file and a server of ours.
pub fn kubeconfig_commands(file: &str, server: &str) -> String {
    let commands = only("sh", "config set-credentials");
    let (their_file, their_server) = ("/etc/sabakan/kubeconfig", "https://kubernetes.example.com:6443");
    assert!(commands.contains(their_file) && commands.contains(their_server), "the guide names other examples");
    commands.replace(their_file, file).replace(their_server, server)
}

/// The one block that has this in it.
pub fn only(language: &str, part: &str) -> String {
    let mut found: Vec<String> = blocks(language).into_iter().filter(|block| block.contains(part)).collect();
    assert_eq!(found.len(), 1, "the guide has one block with {part:?}");
    found.remove(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lose_the_indentation_of_their_list() {
        let page = "```sh\na\n  b\n```\ntext\n- item\n\n  ```sh\n  c\n    d\n\n  ```\n```yaml\ne\n```\n";
        assert_eq!(blocks_of(page, "sh"), ["a\n  b\n", "c\n  d\n\n"]);
        assert_eq!(blocks_of(page, "yaml"), ["e\n"]);
    }
}
