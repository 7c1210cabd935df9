import { loadOf, type Load } from '../../quota/load.ts';
import { classify, usesSlot } from '../../quota/classify.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { awaitsSandbox } from '../../resources/conversation.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { isSpare } from '../../resources/sandbox.ts';
import {
  isInSandbox,
  madeForReferenceOf,
  makerReferencesOf,
} from '../../resources/sandbox-makers.ts';
import type { Holdings } from './resource-lookup.ts';

/** Starts that are to get a sandbox of their own and have none yet. */
export function startsWithoutSandbox({ conversations, sandboxes }: Holdings): number {
  const made = new Set(
    sandboxes.map((sandbox) => `${sandbox.spec.owner}/${madeForReferenceOf(sandbox)?.uid ?? ''}`),
  );
  return conversations.filter(
    (conversation) =>
      conversation.metadata.deletionTimestamp === undefined &&
      awaitsSandbox(conversation) &&
      !made.has(`${conversation.spec.owner}/${conversation.metadata.uid}`),
  ).length;
}

/**
 * Number of slots that are in use, or that starts and resumes under way will use. Slots that are
 * being released don't count.
 */
export const slotsInUse = (holdings: Holdings): number =>
  // Spares are room.
  holdings.sandboxes.filter((sandbox) => !isSpare(sandbox) && usesSlot(sandbox)).length +
  startsWithoutSandbox(holdings);

/** The conversations of each sandbox: those that are in it, and the one that it was made for. */
export function conversationsIn({
  conversations,
  sandboxes,
}: Holdings): ReadonlyMap<string, readonly CachedConversation[]> {
  const byUid = new Map(
    conversations.map((conversation) => [conversation.metadata.uid, conversation]),
  );
  const bySandbox = Map.groupBy(conversations, ({ status }) => status?.sandboxName ?? '');
  return new Map(
    sandboxes.map((sandbox) => {
      const { name } = sandbox.metadata;
      const madeFor = makerReferencesOf(sandbox).flatMap(({ uid }) => {
        const conversation = byUid.get(uid);
        return conversation?.spec.owner === sandbox.spec.owner ? conversation : [];
      });
      const inIt = (bySandbox.get(name) ?? []).filter((conversation) =>
        isInSandbox(conversation, sandbox),
      );
      return [name, [...new Set([...inIt, ...madeFor])]];
    }),
  );
}

/** The sandboxes of one owner as the operator sees them. */
export function ownLoad(
  holdings: Holdings,
  { now, templates }: { readonly now: number; readonly templates: readonly SandboxTemplate[] },
): Load {
  const inside = conversationsIn(holdings);
  const limits = new Map(templates.map(({ metadata, spec }) => [metadata.name, spec]));
  return loadOf(
    holdings.sandboxes.map((sandbox) => {
      const conversations = inside.get(sandbox.metadata.name) ?? [];
      const timeLimits = limits.get(sandbox.spec.templateName);
      return classify({ sandbox, conversations, limits: timeLimits, now });
    }),
  );
}
