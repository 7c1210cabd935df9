import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { Call } from '../http/route.ts';
import type { Services } from '../services.ts';
import { notFound } from '../errors/problem-error.ts';

/** A request about the object that its path names. */
export type OwnCall = Pick<
  Call<{ readonly id: string }, unknown, unknown, unknown>,
  'owner' | 'params' | 'about'
>;

/** The conversation that a request is about: 404 unless it is the owner's. */
export async function ownConversation(
  { lookup }: Pick<Services, 'lookup'>,
  { owner, params, about }: OwnCall,
): Promise<CachedConversation> {
  const conversation = await lookup.conversation(owner, params.id);
  if (conversation === undefined) throw notFound('conversation');
  about(`conversation/${conversation.metadata.name}`);
  return conversation;
}

/** The sandbox that a request is about: 404 unless it is the owner's. */
export async function ownSandbox(
  { lookup }: Pick<Services, 'lookup'>,
  { owner, params, about }: OwnCall,
): Promise<Sandbox> {
  const sandbox = await lookup.sandbox(owner, params.id);
  if (sandbox === undefined) throw notFound('sandbox');
  about(`sandbox/${sandbox.metadata.name}`);
  return sandbox;
}
