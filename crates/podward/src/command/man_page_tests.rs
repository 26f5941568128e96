//! Compares the man page, which is written by hand, with the commands.

use clap::CommandFactory;

use super::arguments::CommandLine;

const PAGE: &str = include_str!("../../../../packaging/podward.8");

#[test]
fn man_page_describes_every_command_and_flag() {
    for command in CommandLine::command().get_subcommands() {
        let name = command.get_name();
        assert!(PAGE.contains(&format!("\n.It Cm {name}")), "packaging/podward.8 has no command {name}");
        for flag in command.get_arguments().filter_map(|argument| argument.get_long()) {
            let is_described =
                PAGE.contains(&format!("Fl -{flag} ")) || PAGE.contains(&format!("Fl -{flag}\n"));
            assert!(is_described, "packaging/podward.8 has no flag --{flag} of {name}");
        }
    }
}
