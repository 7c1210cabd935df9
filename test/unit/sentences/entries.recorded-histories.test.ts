import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AgentEvent } from '../../../src/agent/event-kinds.ts';
import { entriesOf } from '../../../src/sentences/entries.ts';

/** Events that real agents have written: one call that ran, and one that a person has rejected. */
const folder = join(import.meta.dirname, '../../fixtures/histories');
const histories = readdirSync(folder).map((file) => ({
  agent: file.replace('.json', ''),
  runs: JSON.parse(readFileSync(join(folder, file), 'utf8')) as AgentEvent[][],
}));
const acpAgents = ['claude', 'codex', 'gemini', 'kimi', 'opencode', 'qwen'];

describe('the histories of agents', () => {
  it('are those of all seven agents and of the reference agent', () => {
    const all = [...acpAgents, 'openhands', 'reference-agent'];
    expect(histories.map(({ agent }) => agent).sort()).toEqual(all.sort());
  });

  it.each(histories)('have an entry for each event of $agent, but for state', ({ runs }) => {
    for (const events of runs) {
      const entries = entriesOf(events);
      const shown = events.filter(
        ({ kind, tool_call_id: call }) =>
          kind !== 'ConversationStateUpdateEvent' && call === undefined,
      );
      for (const { id } of shown) expect(entries.map((entry) => entry.id)).toContain(id);
      // Each call has one entry, with its result.
      const calls = new Set(events.flatMap(({ tool_call_id: call }) => call ?? []));
      const last = events.filter(
        ({ kind, tool_name: tool }) => kind === 'ActionEvent' && tool === 'finish',
      );
      const tools = entries.filter((entry) => entry.kind === 'tool');
      expect(tools).toHaveLength(calls.size - last.length);
      for (const tool of tools) expect(['done', 'failed', 'rejected']).toContain(tool.state);
      expect(entries.some((entry) => entry.kind === 'folded' && entry.name === 'Event')).toBe(
        false,
      );
    }
  });

  it.each(histories.filter(({ agent }) => acpAgents.includes(agent)))(
    'show what $agent has executed, and what was rejected',
    ({ runs }) => {
      const tools = runs
        .flatMap((events) => entriesOf(events))
        .filter(({ kind }) => kind === 'tool');
      expect(tools).toMatchObject([
        { summary: expect.stringContaining('approved.txt') as string, state: 'done' },
        { summary: expect.stringContaining('rejected.txt') as string, state: 'rejected' },
      ]);
    },
  );
});
