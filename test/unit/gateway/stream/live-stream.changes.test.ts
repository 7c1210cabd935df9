import fc from 'fast-check';
import {
  startStatuses,
  type ConversationStatus,
} from '../../../../src/resources/conversation-status.ts';
import { aConversation, aQuota, aSandbox, noon } from '../../../support/builders.ts';
import { StreamScene } from '../../../support/gateway/stream-scene.ts';

const conversationNames = ['c-1', 'c-2', 'c-3', 'c-4'];
const sandboxNames = ['sbx-1', 'sbx-2'];
/** Longer than the delay before a quota is presented without a change. */
const settledMs = 60_000;

const status = fc.record(
  {
    sandboxName: fc.constantFrom(...sandboxNames),
    title: fc.constantFrom('One', 'Another'),
    start: fc.record({
      status: fc.constantFrom(...startStatuses, 'READY'),
      transitions: fc.constant([]),
    }),
  },
  { requiredKeys: [] },
) satisfies fc.Arbitrary<ConversationStatus>;

/** Steps of a client: `renew` is a new one, which knows nothing; `sip` reads what was written. */
const clientSteps = ['connect', 'leave', 'renew', 'stop', 'read', 'sip'] as const;

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('conversation' as const),
      name: fc.constantFrom(...conversationNames),
      owner: fc.constantFrom('alice', 'alice', 'bob'),
      parent: fc.option(fc.constantFrom(...conversationNames), { nil: undefined }),
      isDeleting: fc.boolean(),
      status,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('sandbox' as const),
      name: fc.constantFrom(...sandboxNames),
      owner: fc.constantFrom('alice', 'bob', ''),
      replicas: fc.constantFrom(0 as const, 1 as const),
    }),
  },
  fc.record({
    do: fc.constant('quota' as const),
    scope: fc.constantFrom('Owner' as const, 'Namespace' as const),
    limit: fc.nat({ max: 3 }),
  }),
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('delete' as const),
      name: fc.constantFrom(...conversationNames, ...sandboxNames),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.constantFrom(0, 1, 100, 260, 1_100, 40_000),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constantFrom(...clientSteps), client: fc.nat({ max: 2 }) }),
  },
);

it('a client that applies snapshots and changes shows exactly what the caches have', async () => {
  const memory = fc.record({
    maxBytes: fc.constantFrom(1, 2_000, 1_048_576),
    recordsPerTurn: fc.integer({ min: 1, max: 4 }),
  });
  await fc.assert(
    fc.asyncProperty(
      memory,
      fc.array(step, { minLength: 10, maxLength: 60 }),
      async (limits, steps) => {
        const scene = new StreamScene(limits);
        const { caches, clock } = scene;
        const clients = ['alice', 'alice', 'bob'].map((owner) => ({
          owner,
          ...scene.connect(owner),
        }));
        const connect = (index: number) => {
          const client = clients[index];
          if (client?.response.destroyed === false && client.state.closed === undefined) return;
          if (client !== undefined)
            Object.assign(client, scene.connect(client.owner, client.state));
        };
        for (const one of steps) {
          switch (one.do) {
            case 'conversation': {
              const { name, owner, parent, isDeleting } = one;
              const made = aConversation({
                name,
                spec: { owner, ...(parent === undefined ? {} : { parent }) },
                status: one.status,
              });
              const deletion = isDeleting ? { deletionTimestamp: noon } : {};
              caches.conversations.set({ ...made, metadata: { ...made.metadata, ...deletion } });
              break;
            }
            case 'sandbox':
              caches.sandboxes.set(aSandbox(one));
              break;
            case 'quota':
              caches.quotas.set(aQuota('default', { scope: one.scope, limit: one.limit }));
              break;
            case 'delete':
              caches.conversations.delete(aConversation({ name: one.name }));
              caches.sandboxes.delete(aSandbox({ name: one.name }));
              break;
            case 'wait':
              await clock.advance(one.ms);
              break;
            case 'connect':
              connect(one.client);
              break;
            case 'leave':
              clients[one.client]?.response.destroy();
              break;
            case 'renew': {
              const client = clients[one.client];
              client?.response.destroy();
              if (client !== undefined) Object.assign(client, scene.connect(client.owner));
              break;
            }
            case 'stop':
            case 'read':
              clients[one.client]?.response.read(one.do === 'read');
              break;
            case 'sip':
              clients[one.client]?.response.read(true);
              await clock.advance(0);
              clients[one.client]?.response.read(false);
          }
        }
        // A client that was closed while it read nothing connects again.
        for (let round = 0; round < 2; round++) {
          for (const [index, { response }] of clients.entries()) {
            response.read(true);
            await clock.advance(10_000);
            connect(index);
          }
        }
        await clock.advance(settledMs);
        for (const { owner, state } of clients)
          expect(state.contents).toEqual(scene.contentsOf(owner));
        for (const { response } of clients) response.destroy();
        await clock.advance(settledMs);
        expect({ hubs: scene.hubs.size, errors: scene.errors }).toEqual({ hubs: 0, errors: 0 });
        scene.close();
      },
    ),
    { numRuns: 300 },
  );
}, 600_000);
