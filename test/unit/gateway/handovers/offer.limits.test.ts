import type { KubeClient } from '@conversation-operator/kube/client';
import { offer, type OfferNeeds } from '../../../../src/gateway/handovers/offer.ts';
import { gatewayIndexers } from '../../../../src/gateway/lookup/cache.ts';
import { apiVersion } from '../../../../src/resources/group.ts';
import type { Handover, HandoverPhase } from '../../../../src/resources/handover.ts';
import { aConversation } from '../../../support/builders.ts';
import { TestCache } from '../../../support/test-cache.ts';

const namespace = 'default';

const many = (count: number, from: (index: number) => string, to: string, phase?: HandoverPhase) =>
  Array.from({ length: count }, (_, index): Handover => {
    const name = `${from(index)}-${to}-${phase ?? 'open'}-${index}`;
    return {
      apiVersion,
      kind: 'Handover',
      metadata: {
        namespace,
        name,
        uid: name,
        resourceVersion: '1',
        generation: 1,
        creationTimestamp: '2027-01-01T00:00:00Z',
      },
      spec: {
        conversation: { name: `of-${name}`, uid: `of-${name}` },
        from: from(index),
        to,
        expirationTime: '2100-01-01T00:00:00Z',
      },
      ...(phase === undefined ? {} : { status: { phase } }),
    };
  });
const alice = () => 'alice';
const everybody = (index: number) => `owner-${index}`;

it.each<[string, readonly Handover[], string]>([
  ['nobody has offered anything', [], 'created'],
  ['9 offers to bob are open', many(9, alice, 'bob'), 'created'],
  [
    '10 offers to bob are open',
    many(10, alice, 'bob'),
    'There are 10 of 10 open offers from you to bob.',
  ],
  ['10 of them have ended', many(10, alice, 'bob', 'Done'), 'created'],
  [
    '20 have ended today',
    many(20, alice, 'bob', 'Refused'),
    'There are 20 of 20 offers from you; those that have ended count for a day.',
  ],
  ['99 others offer to bob', many(99, everybody, 'bob'), 'created'],
  [
    '100 others offer to bob',
    many(100, everybody, 'bob'),
    'There are 100 of 100 open offers to bob.',
  ],
  ['100 others have offered to bob', many(100, everybody, 'bob', 'Done'), 'created'],
])('an owner offers a conversation to bob, where %s', async (_name, present, outcome) => {
  const cache = new TestCache<Handover>(gatewayIndexers.handovers);
  present.forEach((handover) => cache.set(handover));
  const needs = {
    client: { create: () => Promise.reject(new Error('created')) } as unknown as KubeClient,
    namespace,
    clock: { now: () => Date.parse('2027-01-01T00:00:00Z') },
    random: (bytes: number) => Buffer.alloc(bytes, 1),
    caches: { handovers: cache },
  } as unknown as OfferNeeds;
  await expect(offer(needs, aConversation(), 'bob')).rejects.toThrow(outcome);
});
