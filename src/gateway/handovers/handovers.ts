import { z } from 'zod';
import { isoTime } from '@conversation-operator/base/clock';
import { found, isConflict, mayBeExecuted } from '@conversation-operator/kube/errors';
import { isLive } from '@conversation-operator/kube/object';
import type { Audit } from '../../observability/audit.ts';
import {
  handovers,
  isFinished,
  type Handover,
  type HandoverAnswer,
} from '../../resources/handover.ts';
import { ownerName } from '../../resources/schema.ts';
import { requireTemplate } from '../auth/key-ring.ts';
import { notFound, unavailable } from '../errors/common-problems.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { invalidField } from '../errors/validation.ts';
import { conversationParams } from '../http/fields.ts';
import {
  callerOf,
  changeableConversation,
  endpoints,
  type Call,
  type Route,
} from '../http/route.ts';
import { capProblems, type StorageCaps } from '../lookup/storage-caps.ts';
import { mapLimited } from '../lookup/resource-lookup.ts';
import { writeOnStored } from '../lookup/stored.ts';
import {
  handoverList,
  handoverSchema,
  presentHandover,
  visibleTo,
  type PresentNeeds,
} from './present.ts';
import { offer, ofParty, refuseUnmovable, type OfferNeeds } from './offer.ts';

const base = '/api/v1/handovers';
const { get, post, remove } = endpoints('handovers');

export const handoverRequestSchema = z.strictObject({
  to: ownerName().describe('The owner to whom the conversation is offered.'),
});
const params = z.object({ id: z.string().max(253) });

export interface HandoverNeeds extends OfferNeeds, Pick<PresentNeeds, 'startTexts'> {
  readonly audit: Audit;
  readonly caps: StorageCaps;
}

type AnswerCall = Pick<
  Call<{ readonly id: string }, unknown, unknown, unknown>,
  'owner' | 'params' | 'about' | 'principal' | 'response'
>;

/** Routes with which an owner offers a conversation to another one, who accepts or refuses. */
export const handoverRoutes = (needs: HandoverNeeds): readonly Route[] => [
  post('/api/v1/app-conversations/{id}/handover', 'offerHandover', {
    summary: 'Offer a conversation with its sandbox to another owner, who has 7 days to accept',
    params: conversationParams,
    body: handoverRequestSchema,
    responses: { 202: handoverSchema },
    problems: ['not-found', 'wrong-state', 'conflict', 'too-many-handovers'],
    handle: async ({ body: { to }, ...call }) => {
      const { owner } = call;
      if (to === owner) throw invalidField('body.to', 'must be another owner');
      const conversation = await changeableConversation(needs.lookup, call);
      refuseUnmovable(needs.lookup, conversation, await needs.lookup.sandboxOf(conversation));
      const handover = await offer(needs, conversation, to);
      needs.audit('HandoverOffered', { ...callerOf(call), ...auditedAs(handover), to });
      return { status: 202, json: await presentHandover(handover, owner, needs) };
    },
  }),
  get(base, 'listHandovers', {
    summary: 'Offers from you and to you, the newest first; ended ones for a day',
    responses: { 200: handoverList },
    handle: async ({ owner }) => ({
      json: await mapLimited(ofParty(needs, owner).toSorted(newestFirst), (handover) =>
        presentHandover(handover, owner, needs),
      ),
    }),
  }),
  post(`${base}/{id}/accept`, 'acceptHandover', {
    summary: 'Accept an offer: the conversation with its sandbox moves to you, and arrives paused',
    params,
    responses: { 202: handoverSchema },
    problems: [
      'not-found',
      'wrong-state',
      'conflict',
      'handover-answered',
      'template-not-allowed',
      ...capProblems,
    ],
    handle: async (call) => {
      const { owner, principal } = call;
      const handover = await offeredTo(needs, call, 'to');
      if (handover.spec.answer === undefined) {
        const known = needs.lookup.cachedConversation(handover.spec.conversation.name);
        const conversation = visibleTo(owner, handover, known);
        if (conversation === undefined)
          throw new ProblemError('wrong-state', 'The conversation can not be taken over any more.');
        const sandbox = await needs.lookup.sandboxOf(conversation);
        requireTemplate(
          principal.chain,
          sandbox?.spec.templateName ?? conversation.spec.templateName,
        );
        refuseUnmovable(needs.lookup, conversation, sandbox);
        const growth = {
          conversations: 1,
          storedBytes: conversation.storedBytes,
          sandboxes: sandbox === undefined ? 0 : 1,
        };
        return accepted(
          needs,
          call,
          await needs.caps.during(owner, growth, () => answer(needs, call, handover, 'Accepted')),
        );
      }
      return accepted(needs, call, await answer(needs, call, handover, 'Accepted'));
    },
  }),
  post(`${base}/{id}/refuse`, 'refuseHandover', {
    summary: 'Refuse an offer: everything stays with its owner',
    params,
    responses: { 200: handoverSchema },
    problems: ['not-found', 'conflict', 'handover-answered'],
    handle: async (call) => {
      const handover = await offeredTo(needs, call, 'to');
      const answered = await answer(needs, call, handover, 'Refused');
      return { json: await presentHandover(answered, call.owner, needs) };
    },
  }),
  remove(`${base}/{id}`, 'withdrawHandover', {
    summary: 'Withdraw an offer that nobody has accepted yet',
    params,
    responses: { 200: handoverSchema },
    problems: ['not-found', 'conflict', 'handover-answered'],
    handle: async (call) => {
      const handover = await offeredTo(needs, call, 'from');
      const answered = await answer(needs, call, handover, 'Withdrawn');
      return { json: await presentHandover(answered, call.owner, needs) };
    },
  }),
];

const accepted = async (needs: HandoverNeeds, { owner }: AnswerCall, handover: Handover) => ({
  status: 202,
  json: await presentHandover(handover, owner, needs),
});

const newestFirst = (one: Handover, other: Handover): number =>
  other.metadata.creationTimestamp < one.metadata.creationTimestamp ? -1 : 1;

/** The Handover from or to the caller. Throws 404 also for one between other owners. */
async function offeredTo(
  { client, namespace, caches }: HandoverNeeds,
  { owner, params: { id }, about }: AnswerCall,
  side: 'from' | 'to',
): Promise<Handover> {
  const isName = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/.test(id);
  const cached = isName ? caches.handovers.store.get(namespace, id) : undefined;
  const handover =
    cached ?? (isName ? await found(client.get(handovers, namespace, id)) : undefined);
  if (handover?.spec[side] !== owner || !isLive(handover)) throw notFound('handover');
  about(`handover/${id}`);
  return handover;
}

/**
 * Stores the answer at the version that was read. The same answer again is a repetition; an answer
 * without a response either shows in the next read or never takes effect.
 */
async function answer(
  needs: HandoverNeeds,
  call: AnswerCall,
  { metadata: { namespace, name, uid } }: Handover,
  value: HandoverAnswer,
): Promise<Handover> {
  const { client, clock, feeds } = needs;
  const { isNew, written } = await writeOnStored(
    () => found(client.get(handovers, namespace, name)),
    async (stored) => {
      if (stored?.metadata.uid !== uid) throw notFound('handover');
      const { spec, metadata } = stored;
      if (spec.answer?.value === value) return { isNew: false, written: stored };
      refuseAnswered(stored, clock.now());
      const { resourceVersion } = metadata;
      const patched = await client.mergePatch(handovers, namespace, name, {
        metadata: { uid, resourceVersion },
        spec: { answer: { value, by: call.owner, time: isoTime(clock) } },
      });
      return { isNew: true, written: patched };
    },
    (error) => isConflict(error) || mayBeExecuted(error),
  ).catch((error: unknown) => {
    throw mayBeExecuted(error) ? unavailable(undefined, error) : error;
  });
  if (isNew) {
    const { from, to } = written.spec;
    const line = { ...callerOf(call), ...auditedAs(written), from, to, answer: value };
    needs.audit('HandoverAnswered', line);
  }
  await feeds.handovers.settled(name, (seen) => seen?.spec.answer !== undefined);
  return written;
}

function refuseAnswered(handover: Handover, nowMs: number): void {
  const { answer: given, expirationTime } = handover.spec;
  if (given !== undefined)
    throw new ProblemError('handover-answered', `The answer was already: ${given.value}.`);
  if (isFinished(handover) || Date.parse(expirationTime) <= nowMs)
    throw new ProblemError(
      'handover-answered',
      handover.status?.message ?? `The offer has ended at ${expirationTime}.`,
    );
}

/** A handover in the audit log. */
const auditedAs = ({ metadata, spec }: Handover) => ({
  handover: metadata.name,
  conversation: spec.conversation.name,
});
