import { UnresponsiveAgents } from '../../../src/controllers/agent-calls/unresponsive-agents.ts';
import { PollSchedule } from '../../../src/controllers/conversation/polling/poll-schedule.ts';
import { StuckDetection } from '../../../src/controllers/conversation/execution/run-observer.ts';
import { ConversationPoller } from '../../../src/controllers/conversation/polling/conversation-poller.ts';
import type { Conversation } from '../../../src/resources/conversation.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import type { KubeObject } from '@conversation-operator/kube/object';
import { but, client, pretended } from './replaced-methods.ts';
import type { ComponentMutant } from './component-mutant.ts';
import { patched } from './patched.ts';

/** A set of strings for each object. */
class Remembered<T extends object> {
  readonly #all = new WeakMap<T, Set<string>>();

  of(owner: T): Set<string> {
    const known = this.#all.get(owner) ?? new Set<string>();
    this.#all.set(owner, known);
    return known;
  }
}

const heard = new Remembered<PollSchedule>();
const said = new Remembered<ConversationPoller>();
const ages = 1e9;

const isStall = (object: KubeObject): boolean =>
  (object as Conversation).status?.interruption?.abandonedReason === 'Stalled';

/**
 * Mistakes in the observation of agents: of their notifications, of unresponsive agents, and of
 * stuck runs.
 */
export const agentMutants = {
  'an agent that sends notifications is never polled': {
    patches: [
      patched(PollSchedule.prototype, 'notify', (self, original, key) => {
        heard.of(self).add(key);
        return original(key);
      }),
      patched(PollSchedule.prototype, 'record', (self, original, key, outcome) => {
        const waitMs = original(key, outcome);
        return heard.of(self).delete(key) ? ages : waitMs;
      }),
    ],
  },
  'a notification counts as the end of a run': {
    patches: [
      patched(ConversationPoller.prototype, 'notify', (self, original, request) => {
        said.of(self).add(request.name);
        return original(request);
      }),
      patched(
        ConversationPoller.prototype,
        'poll',
        async (self, original, conversation, ...more) => {
          const poll = await original(conversation, ...more);
          const over =
            poll !== undefined &&
            'state' in poll &&
            poll.state !== undefined &&
            said.of(self).has(conversation.metadata.name);
          return over ? { ...poll, state: { ...poll.state, executionStatus: 'finished' } } : poll;
        },
      ),
    ],
  },
  'an unresponsive agent is never recorded': {
    patches: [patched(UnresponsiveAgents.prototype, 'recordFailure', () => false)],
  },
  'an agent that was unresponsive is never probed again': {
    agent: (whole) => {
      const answered = new Set<string>();
      const silent = new Set<string>();
      return but(whole, {
        probe: async (endpoint, options) => {
          const { baseUrl } = endpoint;
          const state = silent.has(baseUrl) ? 'unreachable' : await whole.probe(endpoint, options);
          if (state !== 'unreachable') answered.add(baseUrl);
          else if (answered.has(baseUrl)) silent.add(baseUrl);
          return state;
        },
      });
    },
  },
  'a stuck run is never interrupted': {
    patches: [patched(StuckDetection.prototype, 'quietMs', () => 0)],
  },
  'a run is interrupted at its first poll': {
    patches: [patched(StuckDetection.prototype, 'quietMs', () => ages)],
  },
  'the interrupt of a stuck run is not stored': {
    client: client((whole) => ({
      updateStatus: async (resource, object, options) => {
        if (resource.kind !== conversations.kind || !isStall(object))
          return whole.updateStatus(resource, object, options);
        return pretended(
          await whole.get(resource, object.metadata.namespace ?? '', object.metadata.name),
          object,
        );
      },
    })),
  },
} as const satisfies Readonly<Record<string, ComponentMutant>>;

export type AgentMutantName = keyof typeof agentMutants;
