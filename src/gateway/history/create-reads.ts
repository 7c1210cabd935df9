import type { Clock } from '@conversation-operator/base/clock';
import type { Shares } from '@conversation-operator/base/shares';
import { CircuitBreakers } from '@conversation-operator/http/limits/circuit-breakers';
import type { KubeClient } from '@conversation-operator/kube/client';
import { AgentControl } from '../../agent/openhands-api.ts';
import { AgentEvents } from '../../agent/events.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import { WorkspaceFiles } from '../../agent/workspace-files.ts';
import type { HistoryReader } from '../../archive/history.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { AgentReads } from './agent-reads.ts';
import { HistoryReads } from './history-reads.ts';

interface ReadsNeeds {
  readonly lookup: ResourceLookup;
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly keys: Pick<SandboxKeys, 'sessionKey'>;
  readonly places: { readonly eventReads: Shares; readonly historyReads: Shares };
  /** Undefined: the gateway reads no archives. */
  readonly archives: HistoryReader | undefined;
  /** Maximum time until the first byte of an agent's answer, in milliseconds; 10,000 by default. */
  readonly firstByteMs: number | undefined;
}

/** Makes what reads agents and archives. The caller closes `control`, `events` and `files`. */
export function createReads({
  lookup,
  client,
  clock,
  keys,
  places,
  archives,
  firstByteMs = 10_000,
}: ReadsNeeds) {
  const agentReads = new AgentReads({
    lookup,
    keys,
    clock,
    firstByteMs,
    places: places.eventReads,
    silentAgents: new CircuitBreakers({ clock }),
  });
  return {
    agentReads,
    history: new HistoryReads({
      agentReads,
      lookup,
      client,
      clock,
      archives,
      places: places.historyReads,
    }),
    events: new AgentEvents(),
    files: new WorkspaceFiles(),
    control: new AgentControl(),
  };
}
