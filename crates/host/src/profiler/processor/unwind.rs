//! Unwinds the stack of a sample.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, LittleEndian, Register, RegisterRule, UnwindContext,
    UnwindSection,
};

use super::modules::{Module, UnwindTables};
use super::records;
use super::registers::{self, Registers};

const MAX_FRAMES: usize = 256;

pub(super) struct Unwinder {
    modules: Vec<Module>,
    context: UnwindContext<usize>,
}

/// The sampled part of a stack, starting at an address.
struct StackMemory<'a> {
    start: u64,
    bytes: &'a [u8],
}

impl StackMemory<'_> {
    fn read(&self, address: u64) -> Option<u64> {
        records::read_u64(self.bytes, usize::try_from(address.checked_sub(self.start)?).ok()?)
    }
}

impl Unwinder {
    /// `modules` are ordered by address.
    pub(super) fn new(modules: Vec<Module>) -> Self {
        Self { modules, context: UnwindContext::new() }
    }

    pub(super) fn into_modules(self) -> Vec<Module> {
        self.modules
    }

    /// Writes the addresses of a stack to `into`, innermost frame first. For callers, the address lies inside the call
    /// instruction.
    pub(super) fn unwind(&mut self, mut registers: Registers, stack: &[u8], into: &mut Vec<u64>) {
        into.clear();
        into.push(registers.pc);
        let Some(start) = registers.get(registers::SP) else { return };
        let memory = StackMemory { start, bytes: stack };
        let mut address = registers.pc;
        while into.len() < MAX_FRAMES {
            let Some(caller) = self.caller(address, &registers, &memory) else { return };
            registers = caller;
            address = registers.pc.wrapping_sub(1);
            into.push(address);
        }
    }

    /// The registers of the caller; `None` at the end of the stack or without unwind information.
    fn caller(&mut self, address: u64, registers: &Registers, stack: &StackMemory<'_>) -> Option<Registers> {
        let next = self.modules.partition_point(|module| module.facts.start <= address);
        let module = self.modules.get(next.checked_sub(1)?).filter(|module| address < module.facts.end)?;
        step(module.unwinding.as_ref()?, &mut self.context, address, registers, stack)
    }
}

fn step(
    tables: &UnwindTables,
    context: &mut UnwindContext<usize>,
    address: u64,
    registers: &Registers,
    stack: &StackMemory<'_>,
) -> Option<Registers> {
    let (index, frames) = (&tables.index, &tables.frames);
    let bases = BaseAddresses::default().set_eh_frame_hdr(index.0).set_eh_frame(frames.0);
    let index = EhFrameHdr::new(&index.1, LittleEndian).parse(&bases, 8).ok()?;
    let descriptions = descriptions(&frames.1);
    let table = index.table()?;
    let function = table.fde_for_address(&descriptions, &bases, address, EhFrame::cie_from_offset).ok()?;
    let row = function.unwind_info_for_address(&descriptions, &bases, context, address).ok()?;
    let frame = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            registers.get(*register)?.wrapping_add_signed(*offset)
        }
        // Only linker stubs (PLT) use expressions.
        CfaRule::Expression(_) => return None,
    };
    // The stack shrinks with every frame; anything else could loop forever.
    if frame < registers.get(registers::SP)? {
        return None;
    }
    let return_address = function.cie().return_address_register();
    let mut caller = registers.clone();
    let mut return_pc = registers.get(return_address);
    for (register, rule) in row.registers() {
        let value = restored(rule, *register, registers, frame, stack);
        if *register == return_address {
            return_pc = value;
        }
        caller.set(*register, value.unwrap_or_default());
    }
    caller.set(registers::SP, frame);
    caller.pc = return_pc? & registers::ADDRESS_BITS;
    (caller.pc != 0 && (caller.pc, frame) != (registers.pc, registers.get(registers::SP)?)).then_some(caller)
}

/// The value that a register had in the caller.
fn restored(
    rule: &RegisterRule<usize>,
    register: Register,
    registers: &Registers,
    frame: u64,
    stack: &StackMemory<'_>,
) -> Option<u64> {
    match rule {
        RegisterRule::Offset(offset) => stack.read(frame.wrapping_add_signed(*offset)),
        RegisterRule::ValOffset(offset) => Some(frame.wrapping_add_signed(*offset)),
        RegisterRule::SameValue => registers.get(register),
        RegisterRule::Register(other) => registers.get(*other),
        // The outermost function has no return address. Signal frames use expressions and end the stack here.
        _ => None,
    }
}

fn descriptions(bytes: &[u8]) -> EhFrame<gimli::EndianSlice<'_, LittleEndian>> {
    #[cfg_attr(
        not(target_arch = "aarch64"),
        expect(unused_mut, reason = "only aarch64 authenticates pointers")
    )]
    let mut descriptions = EhFrame::new(bytes, LittleEndian);
    #[cfg(target_arch = "aarch64")]
    descriptions.set_vendor(gimli::Vendor::AArch64);
    descriptions
}
