import { terminalAction } from '../src/tool-events.ts';

describe('the summary of a command', () => {
  it.each([
    ['is the command', 'ls -l\n', 'ls -l'],
    ['has a mark where there are further lines', 'ls\nrm -rf /', 'ls…'],
    ['has a mark where the line is longer', 'x'.repeat(101), `${'x'.repeat(100)}…`],
    ['has no half of a character', `${'x'.repeat(99)}😀😀`, `${'x'.repeat(99)}…`],
  ])('%s', (_what, command, summary) => {
    const call = { toolCallId: 'c', responseId: 'r', thought: '', command, timeoutSeconds: 1 };
    expect(terminalAction(call)).toMatchObject({ summary });
  });
});
