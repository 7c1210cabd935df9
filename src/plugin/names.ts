import { isLive } from '@conversation-operator/kube/object';
import { parseUuid } from '@conversation-operator/base/uuid';
import { CommandError } from '../commands/terminal.ts';
import { titleOf } from '../gateway/presenters/conversation.ts';
import type { CachedConversation } from '../resources/cached-conversation.ts';
import { conversationIdOf } from '../resources/ids.ts';
import type { Scene } from './scene.ts';

/**
 * The conversation whose name or id the text is, else the only one whose name or id begins with the
 * text. Throws if there is none, and names the candidates if there are several. Pure.
 */
export function theConversation(
  all: readonly CachedConversation[],
  given: string,
  namespace: string,
): CachedConversation {
  const live = all.filter(isLive);
  // `-o name` prints the resource before the name.
  const text = given.replace(/^conversations?(\.conversation-operator\.dev)?\//, '');
  const wanted = parseUuid(text) ?? text;
  const exact = live.find(({ metadata }) => metadata.name === text || metadata.name === wanted);
  if (exact !== undefined) return exact;
  const isCalled = (conversation: CachedConversation) =>
    wanted !== '' &&
    (conversation.metadata.name.startsWith(text) ||
      conversationIdOf(conversation).startsWith(wanted.toLowerCase()));
  const [found, ...others] = live.filter(isCalled);
  if (found === undefined)
    throw new CommandError(
      `There is no conversation whose name or id begins with '${text}' in the namespace ${namespace}`,
    );
  if (others.length === 0) return found;
  const candidates = [found, ...others].map((each) => `  ${each.metadata.name}  ${titleOf(each)}`);
  throw new CommandError(
    `${candidates.length} conversations begin with '${text}', so nothing was done:\n${candidates.join('\n')}`,
  );
}

export const named = (scene: Scene, text: string): CachedConversation =>
  theConversation(scene.lookup.everyHolding().conversations, text, scene.namespace);
