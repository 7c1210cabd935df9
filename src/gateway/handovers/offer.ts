import type { Clock } from '@conversation-operator/base/clock';
import { newUuid } from '@conversation-operator/base/uuid';
import type { KubeClient } from '@conversation-operator/kube/client';
import { found, mayBeExecuted } from '@conversation-operator/kube/errors';
import { isLive } from '@conversation-operator/kube/object';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { startStatusOf } from '../../resources/conversation.ts';
import { apiVersion } from '../../resources/group.ts';
import { handovers, phaseOf, type Handover } from '../../resources/handover.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import {
  conversationReferencesOf,
  isInSandbox,
  madeForReferenceOf,
} from '../../resources/sandbox-owner-references.ts';
import type { RandomBytes } from '../auth/key.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { inNamespace, type Cache } from '../lookup/cache.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';

/** Time in which the new owner has to answer. */
const offerMs = 7 * 24 * 60 * 60 * 1000;
/** Maximum offers of one owner, with those that ended within the last day. */
const maxFrom = 20;
/** Maximum open offers to one owner, and those of them that one other owner may have made. */
const maxTo = 100;
const maxBetween = 10;

export interface OfferNeeds {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly lookup: ResourceLookup;
  readonly caches: { readonly handovers: Cache<Handover> };
  readonly feeds: { readonly handovers: ObjectFeed<Handover> };
}

/** The Handovers from this owner and to this owner. */
export const ofParty = (
  { caches, namespace }: Pick<OfferNeeds, 'caches' | 'namespace'>,
  owner: string,
): readonly Handover[] =>
  caches.handovers.store.byIndex('party', inNamespace(namespace, owner)).filter(isLive);

/**
 * Throws 409 for a conversation that can not move: its start is not over, or its sandbox was not
 * made for it alone. The operator checks the same again before the first step of the move.
 */
export function refuseUnmovable(
  lookup: ResourceLookup,
  conversation: CachedConversation,
  sandbox: Sandbox | undefined,
): void {
  if (startStatusOf(conversation) !== 'READY')
    throw new ProblemError(
      'wrong-state',
      `The start is in ${startStatusOf(conversation)}; a conversation can be handed over once it is READY.`,
    );
  if (sandbox === undefined) return;
  const { uid, name } = conversation.metadata;
  const inIt = lookup.conversationsNaming(sandbox.metadata.name);
  const others = [
    ...inIt
      .filter((other) => other.metadata.uid !== uid && isInSandbox(other, sandbox))
      .map(conversationIdOf),
    ...conversationReferencesOf(sandbox)
      .filter(
        (other) => other.uid !== uid && !inIt.some(({ metadata }) => metadata.uid === other.uid),
      )
      .map((other) => other.name),
  ];
  if (others.length > 0)
    throw new ProblemError(
      'wrong-state',
      `Other conversations use the sandbox of ${name}: ${others.join(', ')}. Delete them first.`,
    );
  if (madeForReferenceOf(sandbox)?.uid !== uid)
    throw new ProblemError(
      'wrong-state',
      'The sandbox was not made for this conversation, so it can not move with it.',
    );
}

/** Creates the offer; the same offer again is the open one. */
export async function offer(
  needs: OfferNeeds,
  { metadata, spec: { owner: from } }: CachedConversation,
  to: string,
): Promise<Handover> {
  const { client, namespace, clock, random, feeds } = needs;
  const own = ofParty(needs, from);
  const open = own.find(
    (one) => one.spec.conversation.uid === metadata.uid && phaseOf(one) === 'Offered',
  );
  if (open?.spec.to === to && Date.parse(open.spec.expirationTime) > clock.now()) return open;
  if (open !== undefined && open.spec.to !== to)
    throw new ProblemError(
      'wrong-state',
      `The conversation is offered to ${open.spec.to}. Withdraw that offer first.`,
    );
  const mine = own.filter(({ spec }) => spec.from === from);
  refuseTooMany(mine, maxFrom, 'offers from you; those that have ended count for a day');
  const openTo = ofParty(needs, to).filter((one) => one.spec.to === to && !isOver(one));
  const between = openTo.filter(({ spec }) => spec.from === from);
  refuseTooMany(between, maxBetween, `open offers from you to ${to}`);
  refuseTooMany(openTo, maxTo, `open offers to ${to}`);
  const name = newUuid(clock.now(), random);
  const create = () =>
    client.create(handovers, {
      apiVersion,
      kind: handovers.kind,
      metadata: { namespace, name },
      spec: {
        conversation: { name: metadata.name, uid: metadata.uid },
        from,
        to,
        expirationTime: new Date(clock.now() + offerMs).toISOString(),
      },
    });
  const created = await create().catch(async (error: unknown) => {
    // A create without a response may have stored the offer. No other request uses its name.
    const stored = mayBeExecuted(error)
      ? await found(client.get(handovers, namespace, name))
      : undefined;
    if (stored === undefined) throw error;
    return stored;
  });
  await feeds.handovers.settled(name, (seen) => seen !== undefined);
  return created;
}

const isOver = (handover: Handover): boolean => ['Done', 'Refused'].includes(phaseOf(handover));

function refuseTooMany(offers: readonly Handover[], limit: number, which: string): void {
  const current = offers.length;
  if (current >= limit)
    throw new ProblemError('too-many-handovers', `There are ${current} of ${limit} ${which}.`, {
      usage: { limit, current },
    });
}
