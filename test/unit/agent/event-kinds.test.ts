import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { EventBody } from '@conversation-operator/agent-server/events';
import { eventKindOf, eventKinds, type AgentEvent } from '../../../src/agent/event-kinds.ts';

/** Refused by the compiler where a kind that our agents send has no row. */
const ofOurAgents: Readonly<Record<EventBody['kind'], object>> = eventKinds;
const folder = join(import.meta.dirname, '../../fixtures/histories');

describe('the table of the kinds of events', () => {
  it('has a row for each kind that our agents send', () => {
    for (const kind of Object.keys(ofOurAgents)) expect(eventKindOf({ kind })).toBeDefined();
  });

  it.each(readdirSync(folder))('has a row for each kind in the history %s', (file) => {
    const runs = JSON.parse(readFileSync(join(folder, file), 'utf8')) as AgentEvent[][];
    const sent = new Set(runs.flat().map(({ kind }) => kind));
    expect([...sent].filter((kind) => eventKindOf({ kind }) === undefined)).toEqual([]);
  });

  it.each(['NewKind', 'constructor', '__proto__', undefined, {}])('has none for %j', (kind) => {
    expect(eventKindOf({ kind })).toBeUndefined();
  });
});
