//! From a sample to the functions that were under way.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, LittleEndian, Register, RegisterRule, UnwindContext,
    UnwindSection,
};

use super::modules::{Module, UnwindTables};
use super::records;
use super::registers::{self, Registers};

/// No stack is followed further.
const DEEPEST: usize = 256;

/// Follows stacks through the modules of this process.
pub(super) struct Unwinder {
    modules: Vec<Module>,
    context: UnwindContext<usize>,
}

/// A piece of a stack.
struct Memory<'a> {
    start: u64,
    bytes: &'a [u8],
}

impl Memory<'_> {
    fn read(&self, address: u64) -> Option<u64> {
        records::number(self.bytes, usize::try_from(address.checked_sub(self.start)?).ok()?)
    }
}

impl Unwinder {
    /// Takes them in the order of their addresses.
    pub(super) fn new(modules: Vec<Module>) -> Self {
        Self { modules, context: UnwindContext::new() }
    }

    /// The modules, for their names.
    pub(super) fn into_modules(self) -> Vec<Module> {
        self.modules
    }

    /// The instructions of a stack, what ran first. Those of callers are inside their calls.
    pub(super) fn unwind(&mut self, mut registers: Registers, stack: &[u8], into: &mut Vec<u64>) {
        into.clear();
        into.push(registers.pc);
        let Some(start) = registers.get(registers::SP) else { return };
        let memory = Memory { start, bytes: stack };
        let mut at = registers.pc;
        while into.len() < DEEPEST {
            let Some(caller) = self.caller(at, &registers, &memory) else { return };
            registers = caller;
            at = registers.pc.wrapping_sub(1);
            into.push(at);
        }
    }

    /// The registers of the caller; `None` at the end of the stack, and where nobody knows.
    fn caller(&mut self, at: u64, registers: &Registers, stack: &Memory<'_>) -> Option<Registers> {
        let behind = self.modules.partition_point(|module| module.facts.start <= at);
        let module = self.modules.get(behind.checked_sub(1)?).filter(|module| at < module.facts.end)?;
        step(module.unwinding.as_ref()?, &mut self.context, at, registers, stack)
    }
}

fn step(
    tables: &UnwindTables,
    context: &mut UnwindContext<usize>,
    at: u64,
    registers: &Registers,
    stack: &Memory<'_>,
) -> Option<Registers> {
    let (index, frames) = (&tables.index, &tables.frames);
    let bases = BaseAddresses::default().set_eh_frame_hdr(index.0).set_eh_frame(frames.0);
    let index = EhFrameHdr::new(&index.1, LittleEndian).parse(&bases, 8).ok()?;
    let descriptions = descriptions(&frames.1);
    let find = index.table()?;
    let function = find.fde_for_address(&descriptions, &bases, at, EhFrame::cie_from_offset).ok()?;
    let row = function.unwind_info_for_address(&descriptions, &bases, context, at).ok()?;
    let frame = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            registers.get(*register)?.wrapping_add_signed(*offset)
        }
        // Only stubs of the linker have one.
        CfaRule::Expression(_) => return None,
    };
    // A stack only shrinks on the way out; anything else would go round for ever.
    if frame < registers.get(registers::SP)? {
        return None;
    }
    let return_address = function.cie().return_address_register();
    let mut caller = registers.clone();
    let mut back = registers.get(return_address);
    for (register, rule) in row.registers() {
        let value = restored(rule, *register, registers, frame, stack);
        if *register == return_address {
            back = value;
        }
        caller.set(*register, value.unwrap_or_default());
    }
    caller.set(registers::SP, frame);
    caller.pc = back? & registers::ADDRESS_BITS;
    (caller.pc != 0 && (caller.pc, frame) != (registers.pc, registers.get(registers::SP)?)).then_some(caller)
}

/// What the caller had in a register.
fn restored(
    rule: &RegisterRule<usize>,
    register: Register,
    registers: &Registers,
    frame: u64,
    stack: &Memory<'_>,
) -> Option<u64> {
    match rule {
        RegisterRule::Offset(offset) => stack.read(frame.wrapping_add_signed(*offset)),
        RegisterRule::ValOffset(offset) => Some(frame.wrapping_add_signed(*offset)),
        RegisterRule::SameValue => registers.get(register),
        RegisterRule::Register(other) => registers.get(*other),
        // The outermost function has no return address; frames of signals, which end a stack here, have expressions.
        _ => None,
    }
}

fn descriptions(bytes: &[u8]) -> EhFrame<gimli::EndianSlice<'_, LittleEndian>> {
    #[cfg_attr(not(target_arch = "aarch64"), expect(unused_mut, reason = "only arm has signed addresses"))]
    let mut descriptions = EhFrame::new(bytes, LittleEndian);
    #[cfg(target_arch = "aarch64")]
    descriptions.set_vendor(gimli::Vendor::AArch64);
    descriptions
}
