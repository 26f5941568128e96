//! Code for rules with conditions on arguments.

use super::action::Action;
use super::condition::{ArgumentWidth, Comparison, Condition};
use super::instruction::{Half, IF_EQUAL, IF_GREATER, IF_GREATER_OR_EQUAL, Instruction};

/// Tests the rules in order, and gives the action of the first one whose conditions all hold.
pub(super) fn conditional_code(rules: &[(Action, &[Condition])], default: Action) -> Vec<Instruction> {
    let mut code = Vec::new();
    for (action, conditions) in rules {
        code.extend(rule_code(*action, conditions));
    }
    code.push(Instruction::give(default));
    code
}

/// Where a test continues.
#[derive(Clone, Copy)]
enum Next {
    /// The following instruction.
    Following,
    /// The condition holds: the instruction behind its code.
    Holds,
    /// It does not: the instruction behind the rule's code.
    Fails,
}

enum Step {
    Plain(Instruction),
    Test { code: u16, operand: u32, if_true: Next, if_false: Next },
}

fn rule_code(action: Action, conditions: &[Condition]) -> Vec<Instruction> {
    let steps: Vec<Vec<Step>> = conditions.iter().map(condition_steps).collect();
    let end = steps.iter().map(Vec::len).sum::<usize>() + 1;
    let mut code = Vec::with_capacity(end);
    let mut behind = 0;
    for steps in steps {
        behind += steps.len();
        for step in steps {
            let following = code.len() + 1;
            // Six conditions have at most 36 instructions, so every distance fits.
            let distance = |next: Next| {
                let target = match next {
                    Next::Following => following,
                    Next::Holds => behind,
                    Next::Fails => end,
                };
                u8::try_from(target - following).unwrap_or(u8::MAX)
            };
            code.push(match step {
                Step::Plain(instruction) => instruction,
                Step::Test { code, operand, if_true, if_false } => {
                    Instruction { code, if_true: distance(if_true), if_false: distance(if_false), operand }
                }
            });
        }
    }
    code.push(Instruction::give(action));
    code
}

fn condition_steps(condition: &Condition) -> Vec<Step> {
    let load = |half| Step::Plain(Instruction::load_argument(condition.index, half));
    let test = |code, operand, if_true, if_false| Step::Test { code, operand, if_true, if_false };
    let full = match condition.width {
        ArgumentWidth::Full => true,
        ArgumentWidth::LowerHalf => false,
    };
    let mut steps = Vec::new();
    match condition.comparison {
        Comparison::Equal(value) => {
            if full {
                steps.push(load(Half::Upper));
                steps.push(test(IF_EQUAL, upper(value), Next::Following, Next::Fails));
            }
            steps.push(load(Half::Lower));
            steps.push(test(IF_EQUAL, lower(value), Next::Holds, Next::Fails));
        }
        Comparison::NotEqual(value) => {
            if full {
                steps.push(load(Half::Upper));
                steps.push(test(IF_EQUAL, upper(value), Next::Following, Next::Holds));
            }
            steps.push(load(Half::Lower));
            steps.push(test(IF_EQUAL, lower(value), Next::Fails, Next::Holds));
        }
        Comparison::MaskedEqual { mask, value } => {
            if full {
                steps.push(load(Half::Upper));
                steps.push(Step::Plain(Instruction::and(upper(mask))));
                steps.push(test(IF_EQUAL, upper(value), Next::Following, Next::Fails));
            }
            steps.push(load(Half::Lower));
            steps.push(Step::Plain(Instruction::and(lower(mask))));
            steps.push(test(IF_EQUAL, lower(value), Next::Holds, Next::Fails));
        }
        Comparison::Greater(value) | Comparison::LessOrEqual(value) => {
            order_steps(&mut steps, full, value, IF_GREATER, condition);
        }
        Comparison::GreaterOrEqual(value) | Comparison::Less(value) => {
            order_steps(&mut steps, full, value, IF_GREATER_OR_EQUAL, condition);
        }
    }
    steps
}

/// Tests `argument > value` or `argument >= value`, or the opposite for "less".
fn order_steps(steps: &mut Vec<Step>, full: bool, value: u64, last: u16, condition: &Condition) {
    let (greater, not_greater) = match condition.comparison {
        Comparison::Less(_) | Comparison::LessOrEqual(_) => (Next::Fails, Next::Holds),
        Comparison::NotEqual(_)
        | Comparison::Equal(_)
        | Comparison::GreaterOrEqual(_)
        | Comparison::Greater(_)
        | Comparison::MaskedEqual { .. } => (Next::Holds, Next::Fails),
    };
    if full {
        steps.push(Step::Plain(Instruction::load_argument(condition.index, Half::Upper)));
        let operand = upper(value);
        steps.push(Step::Test { code: IF_GREATER, operand, if_true: greater, if_false: Next::Following });
        steps.push(Step::Test { code: IF_EQUAL, operand, if_true: Next::Following, if_false: not_greater });
    }
    steps.push(Step::Plain(Instruction::load_argument(condition.index, Half::Lower)));
    let operand = lower(value);
    steps.push(Step::Test { code: last, operand, if_true: greater, if_false: not_greater });
}

fn upper(value: u64) -> u32 {
    lower(value >> 32)
}

fn lower(value: u64) -> u32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}
