import type { AgentClient } from '../../../src/agent/agent.ts';
import { AgentError } from '../../../src/agent/errors.ts';
import type { InterruptedRun } from '../../../src/controllers/conversation/execution/interruption.ts';
import { createCaches } from '../../../src/controllers/caches.ts';
import { TransportError } from '@conversation-operator/kube/errors';
import type { Reflector } from '@conversation-operator/kube/reflector';
import type { Store } from '@conversation-operator/kube/store';
import type { CachedConversation } from '../../../src/resources/cached-conversation.ts';
import { conversations, type Conversation } from '../../../src/resources/conversation.ts';
import { persistentVolumeClaims, pods } from '@conversation-operator/kube/core';
import type { KubeObject } from '@conversation-operator/kube/object';
import { sandboxes, type Sandbox } from '../../../src/resources/sandbox.ts';
import { SimulatedAgentClient } from '../agent-network.ts';
import { but, client } from './replaced-methods.ts';
import type { ComponentMutant } from './component-mutant.ts';

const agent =
  (replace: (whole: AgentClient) => Partial<AgentClient>): NonNullable<ComponentMutant['agent']> =>
  (whole) =>
    but(whole, replace(whole));

/** A reflector whose store returns mapped objects. */
const mapped = <S extends KubeObject, T extends KubeObject>(
  reflector: Reflector<S, T>,
  map: (object: T) => T,
): Reflector<S, T> => {
  const { store } = reflector;
  const changed: Partial<Store<T>> = {
    get: (namespace, name) => {
      const object = store.get(namespace, name);
      return object === undefined ? undefined : map(object);
    },
  };
  return but(reflector, { store: but(store, changed) });
};

const with2 = (name: string | undefined) => `${name ?? ''}-2`;

/** Mutants of the operator, each named by a sentence. */
export const operatorMutants = {
  'a status is written regardless of its version': {
    client: client((whole) => ({
      updateStatus: async (resource, object, options) => {
        const { namespace = '', name } = object.metadata;
        const { metadata } = await whole.get(resource, namespace, name);
        return whole.updateStatus(
          resource,
          {
            ...object,
            metadata: { ...object.metadata, resourceVersion: metadata.resourceVersion },
          },
          options,
        );
      },
    })),
  },
  'a delayed requeue is lost': {
    clock: (whole) =>
      but(whole, {
        after: (delayMs, callback) =>
          delayMs >= 50 && delayMs <= 30_000
            ? { cancel: () => undefined }
            : whole.after(delayMs, callback),
      }),
  },
  'a sandbox is created once more a minute later': {
    client: (whole, { clock }) =>
      but(whole, {
        create: async (resource, object, options) => {
          if (resource.kind === sandboxes.kind)
            clock.after(60_000, () => void whole.create(resource, object).catch(() => undefined));
          return whole.create(resource, object, options);
        },
      }),
  },
  'a creation of unknown outcome is repeated under another name': {
    client: client((whole) => ({
      create: async (resource, object, options) => {
        try {
          return await whole.create(resource, object, options);
        } catch (error) {
          if (!(error instanceof TransportError)) throw error;
          return whole.create(
            resource,
            { ...object, metadata: { ...object.metadata, name: with2(object.metadata.name) } },
            options,
          );
        }
      },
    })),
  },
  'deletions have no preconditions, and are repeated': {
    client: (whole, { clock }) =>
      but(whole, {
        delete: async (resource, namespace, name, { uid: _, ...options } = {}) => {
          await whole.delete(resource, namespace, name, options);
          clock.after(
            2_000,
            () => void whole.delete(resource, namespace, name).catch(() => undefined),
          );
        },
      }),
  },
  'the writes of a leader are not fenced': { unfenced: true },
  'the first message is sent again': {
    agent: agent((whole) => ({
      createConversation: async (endpoint, wanted, options) => {
        if (whole instanceof SimulatedAgentClient) await whole.forget(endpoint, wanted.id, options);
        return whole.createConversation(endpoint, wanted, options);
      },
    })),
  },
  'a pod is deleted without an interrupt of its runs': {
    agent: agent((whole) => ({
      runningConversations: async (endpoint, options) => {
        await whole.runningConversations(endpoint, options);
        return [];
      },
    })),
  },
  'a sandbox is RUNNING before its agent has answered': {
    agent: agent(() => ({
      probe: () => Promise.resolve('ready'),
      runningConversations: () => Promise.resolve([]),
    })),
  },
  'a status contains the session key': {
    client: (whole, { keys }) =>
      but(whole, {
        updateStatus: (resource, object, options) =>
          whole.updateStatus(
            resource,
            resource.kind === sandboxes.kind
              ? withMessage(object, keys.sessionKey(object.metadata.uid))
              : object,
            options,
          ),
      }),
  },
  'a pod contains the secret key of its agent': {
    client: (whole, { keys }) =>
      but(whole, {
        create: (resource, object, options) => {
          const uid = object.metadata.ownerReferences?.[0]?.uid;
          if (resource.kind !== pods.kind || uid === undefined)
            return whole.create(resource, object, options);
          return whole.create(
            resource,
            {
              ...object,
              metadata: { ...object.metadata, annotations: { secret: keys.secretKey(uid) } },
            },
            options,
          );
        },
      }),
  },
  'a run resumes that its owner has paused': {
    caches: (options) => {
      const whole = createCaches(options);
      return { ...whole, conversations: mapped(whole.conversations, withLossForPause) };
    },
  },
  'lost containers are not counted': {
    client: client((whole) => ({
      updateStatus: (resource, object, options) =>
        whole.updateStatus(
          resource,
          resource.kind === conversations.kind
            ? withInterruption(object, { containerLosses: undefined })
            : object,
          options,
        ),
    })),
  },
  'rejected resumes are not counted': {
    client: client((whole) => ({
      updateStatus: (resource, object, options) =>
        whole.updateStatus(
          resource,
          resource.kind === conversations.kind
            ? withInterruption(object, { resumeRejections: undefined })
            : object,
          options,
        ),
    })),
  },
  'the first rejected resume ends a run': {
    client: client((whole) => ({
      updateStatus: (resource, object, options) =>
        whole.updateStatus(
          resource,
          resource.kind === conversations.kind
            ? withInterruption(object, { abandonedReason: 'LostTooOften' })
            : object,
          options,
        ),
    })),
  },
  'the error of a failed run is not read': {
    agent: agent(() => ({ lastError: () => Promise.resolve(undefined) })),
  },
  'an action that waits for a confirmation is lost with its pod': {
    agent: agent(() => ({ losableQuestions: () => Promise.resolve([]) })),
  },
  'a run that was observed once never ends': {
    agent: (whole) => {
      const seen = new Set<string>();
      return but(whole, {
        conversation: async (endpoint, id, options) => {
          const state = await whole.conversation(endpoint, id, options);
          if (state?.executionStatus === 'running') seen.add(id);
          return state !== undefined && seen.has(id)
            ? { ...state, executionStatus: 'running' }
            : state;
        },
      });
    },
  },
  'a run that was lost before it was saved counts as finished': {
    agent: (whole) =>
      but(whole, {
        conversation: async (endpoint, id, options) => {
          const state = await whole.conversation(endpoint, id, options);
          return state?.executionStatus === 'idle'
            ? { ...state, executionStatus: 'finished' }
            : state;
        },
      }),
  },
  'a pause is reverted': {
    client: client((whole) => ({
      updateStatus: async (resource, object, options) => {
        const stored = await whole.updateStatus(resource, object, options);
        if (resource.kind !== sandboxes.kind || !isPaused(object)) return stored;
        const { namespace = '', name } = object.metadata;
        return whole.mergePatch(resource, namespace, name, { spec: { replicas: 1 } });
      },
    })),
  },
  'a start loses its first transition': {
    client: client((whole) => ({
      updateStatus: (resource, object, options) =>
        whole.updateStatus(
          resource,
          resource.kind === conversations.kind ? withoutFirstTransition(object) : object,
          options,
        ),
    })),
  },
  'every poll of an agent changes the status': {
    agent: (whole, { clock }) =>
      but(whole, {
        conversation: async (endpoint, id, options) => {
          const seen = await whole.conversation(endpoint, id, options);
          return seen === undefined
            ? undefined
            : { ...seen, updatedAt: new Date(clock.now()).toISOString() };
        },
      }),
  },
  'a message is sent again without a check whether the agent has it': {
    agent: agent(() => ({ userMessagesAfter: () => Promise.resolve([]) })),
  },
  'a message is sent before its delivery is stored': {
    client: client((whole) => ({
      updateStatus: (resource, object, options) =>
        whole.updateStatus(
          resource,
          resource.kind === conversations.kind ? withoutSending(object) : object,
          options,
        ),
    })),
  },
  'a message counts as delivered without an answer of the agent': {
    agent: agent((whole) => ({
      sendMessage: async (...parameters) => {
        try {
          return await whole.sendMessage(...parameters);
        } catch {
          return { started: true };
        }
      },
    })),
  },
  'a message that waits in an agent is sent again': {
    agent: agent((whole) => ({
      sendMessage: async (...parameters) => {
        try {
          return await whole.sendMessage(...parameters);
        } catch {
          throw new AgentError('unreachable', 'as if it had not been sent');
        }
      },
    })),
  },
  'volume claims have no owner': {
    client: client((whole) => ({
      create: (resource, object, options) => {
        const { ownerReferences: _, ...metadata } = object.metadata;
        return whole.create(
          resource,
          resource.kind === persistentVolumeClaims.kind ? { ...object, metadata } : object,
          options,
        );
      },
    })),
  },
  'a pod is created for every sandbox in the cache': {
    client: client((whole) => ({
      get: async (resource, namespace, name, options) => {
        const stored = await whole.get(resource, namespace, name, options);
        return resource.kind === sandboxes.kind
          ? { ...stored, spec: { ...(stored as KubeObject as Sandbox).spec, replicas: 1 } }
          : stored;
      },
    })),
  },
} as const satisfies Readonly<Record<string, ComponentMutant>>;

export type OperatorMutantName = keyof typeof operatorMutants;

const withMessage = <T extends KubeObject>(object: T, message: string): T => ({
  ...object,
  status: { ...(object as T & Pick<Sandbox, 'status'>).status, message },
});

const isPaused = (object: KubeObject): boolean => (object as Sandbox).spec.replicas === 0;

function withoutFirstTransition<T extends KubeObject>(object: T): T {
  const { status } = object as KubeObject as Conversation;
  if (status?.start?.status !== 'READY') return object;
  return {
    ...object,
    status: {
      ...status,
      start: { ...status.start, transitions: status.start.transitions.slice(1) },
    },
  };
}

function withoutSending<T extends KubeObject>(object: T): T {
  const { status } = object as KubeObject as Conversation;
  if (status?.messages?.inFlight === undefined) return object;
  const { inFlight: _sending, ...messages } = status.messages;
  return { ...object, status: { ...status, messages } };
}

function withInterruption<T extends KubeObject>(object: T, changed: Partial<InterruptedRun>): T {
  const { status } = object as KubeObject as Conversation;
  if (status?.interruption === undefined) return object;
  return { ...object, status: { ...status, interruption: { ...status.interruption, ...changed } } };
}

function withLossForPause(conversation: CachedConversation): CachedConversation {
  const { status } = conversation;
  if (status?.interruption === undefined) return conversation;
  return {
    ...conversation,
    status: { ...status, interruption: { ...status.interruption, reason: 'Loss' } },
  };
}
