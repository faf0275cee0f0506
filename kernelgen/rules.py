"""Every rule that a finding can name: its stable code, its title and the reason behind it.

Codes never change their meaning and are never reused.

=======  ==========================================================
KG0xx    the file: encoding, JSON syntax, limits
KG1xx    the shape of the spec: keys, types, names
KG2xx    the language of the body: syntax, names, axes, dtypes
KG3xx    the schedule: grid, tiles, reduction axes
KG4xx    what the TPU can hold and do: blocks, dtypes, memory spaces
KG5xx    what a TPU generation has room for: VMEM and SMEM
KG6xx    the generated files: names, hand edits, writing
=======  ==========================================================
"""

from __future__ import annotations

from .records import record


@record
class Rule:
    """One rule: what it checks (``title``) and why it exists (``why``)."""

    code: str
    title: str
    why: str


_RULES = (
    Rule("KG001", "file cannot be read", "A spec is one JSON file."),
    Rule("KG002", "file is not plain UTF-8", "Other encodings read differently on other machines."),
    Rule("KG003", "JSON syntax", "Specs are strict JSON (RFC 8259): every tool reads the same."),
    Rule("KG004", "duplicate key", "JSON readers silently keep one of the two; which one differs."),
    Rule("KG005", "number is not finite", "NaN and Infinity are not JSON; write -inf in the body."),
    Rule("KG006", "input too large", "People write specs; limits keep hostile input cheap."),
    Rule("KG101", "missing key", "The kernel cannot be planned without it."),
    Rule("KG102", "unknown key", "An ignored key would be a decision that has no effect."),
    Rule("KG103", "wrong type", "Values are never converted: what the spec says is what is used."),
    Rule("KG104", "illegal name", "Names become names of the generated Python module."),
    Rule("KG105", "name used twice", "A name stands for one thing throughout a kernel."),
    Rule("KG106", "unknown value", "Only what the planner knows about can be planned."),
    Rule("KG107", "unknown axis", "Blocks and index maps follow from the axes by name."),
    Rule("KG108", "listed twice", "A second mention has no meaning of its own."),
    Rule("KG109", "unused axis", "An axis without an array has no size to loop over."),
    Rule("KG110", "value out of range", "Sizes are 32-bit on a TPU, and tiles are not empty."),
    Rule("KG111", "axis of unknown size", "The generated function reads sizes from its arguments."),
    Rule("KG112", "incomplete case", "The verifier makes the arrays of a case from its sizes."),
    Rule("KG113", "invisible character", "Reviewers have to see everything that is in a spec."),
    Rule("KG114", "unknown spec version", "A version fixes what every key means."),
    Rule("KG115", "reference is not plain jnp", "It is text from a file: it may compute, no more."),
    Rule("KG201", "expression syntax", "A body holds arithmetic in a closed grammar."),
    Rule("KG202", "unknown name", "A body sees operands, scratch buffers and its own locals."),
    Rule("KG203", "unknown operation", "Only operations known to lower on every TPU are offered."),
    Rule("KG204", "unknown axis", "Operations name the axis they run along."),
    Rule("KG205", "wrong arguments", "Each operation takes a fixed number of values and axes."),
    Rule("KG206", "types do not fit", "The TPU computes in float32, int32 and booleans."),
    Rule("KG207", "value lacks the axis", "There is nothing to combine along an axis not there."),
    Rule("KG208", "cannot be assigned or read", "Inputs are read, outputs are written."),
    Rule("KG209", "read before written", "Memory on the chip starts with garbage, NaN included."),
    Rule("KG210", "output never written", "Its array would hold whatever was in memory before."),
    Rule("KG211", "unused operand", "Its blocks would be copied to VMEM for nothing."),
    Rule("KG212", "target lacks an axis", "A block has one place for each position of its axes."),
    Rule("KG213", "wrong phase", "A block is written back when its index changes."),
    Rule("KG214", "axis not whole", "A step sees one tile; the others pass at other steps."),
    Rule("KG215", "result of one tile", "A step sees one tile of an axis that the grid walks."),
    Rule("KG216", "no position", "The scalar core computes positions, in whole 32-bit numbers."),
    Rule("KG217", "bound of an inner axis", "Steps are skipped before what they walk is known."),
    Rule("KG218", "bounds that vary", "Each row of a sum leaves out positions of its own."),
    Rule("KG301", "grid axis without tile", "The grid walks an axis tile by tile."),
    Rule("KG302", "tiled axis not in grid", "Only the first tile would ever be computed."),
    Rule("KG303", "block of several steps", "Parallel steps may run on two cores."),
    Rule("KG304", "reduction axis not in grid", "The grid walks a reduction axis in order."),
    Rule("KG305", "reduction axis not innermost", "An output block stays in VMEM until done."),
    Rule("KG306", "nothing is tiled", "VMEM holds 16 to 128 MiB; arrays are larger."),
    Rule("KG307", "shared blocks", "An output block is written back when the next one is named."),
    Rule("KG308", "illegal sub-blocks", "Sub-blocks are whole rows of registers of a block."),
    Rule("KG401", "illegal block", "Blocks fill registers of 8 x 128."),
    Rule("KG402", "tile of 1 in the last dimensions", "The last two dimensions are tiled."),
    Rule("KG403", "narrow accumulator", "Every partial sum would be rounded again."),
    Rule("KG404", "element type not on the TPU", "Registers hold 32-bit words, or packed ones."),
    Rule("KG405", "product not on this target", "Older matrix units multiply bfloat16 alone."),
    Rule("KG406", "vector in SMEM", "SMEM feeds the scalar core, one 32-bit word at a time."),
    Rule("KG408", "several axes of a product in a block", "One batch, one contracted dimension."),
    Rule("KG409", "scalar in VMEM", "VMEM is read by registers of 1,024 words; scalars have SMEM."),
    Rule("KG410", "scratch in ANY", "ANY says that an array stays where the caller has it."),
    Rule("KG411", "type not in SMEM", "SMEM is addressed in 32-bit words."),
    Rule("KG412", "alias of another array", "An output in place of an input has its blocks."),
    Rule("KG413", "buffers without copies", "The grid pipeline has two buffers for each block."),
    Rule("KG414", "nothing to replicate", "Only a column is broadcast along lanes."),
    Rule("KG415", "no sum for a dot", "The matrix unit multiplies bfloat16 by 1 exactly."),
    Rule("KG416", "type that is not copied", "DMAs move bytes, and a boolean is none."),
    Rule("KG501", "VMEM overflow", "Blocks are double-buffered: two copies have to fit."),
    Rule("KG502", "SMEM overflow", "Prefetched scalars stay in SMEM for the whole call."),
    Rule("KG601", "two specs make one file", "A kernel's name is the name of its module."),
    Rule("KG602", "edited by hand", "Rendering would throw the edit away; make it in the spec."),
    Rule("KG603", "not a generated file", "kernelgen overwrites only what it wrote itself."),
    Rule("KG604", "cannot write", "Nothing was changed: files are written together or not at all."),
    Rule("KG605", "broken template", "Templates print a plan; what they print has to be Python."),
)

RULES: dict[str, Rule] = {rule.code: rule for rule in _RULES}
