import type { KubeObject } from '@conversation-operator/kube/object';
import type { Call } from './route.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { notFound } from '../errors/problem-error.ts';

/** A request about the object that its path names. */
export type OwnCall = Pick<
  Call<{ readonly id: string }, unknown, unknown, unknown>,
  'owner' | 'params' | 'about'
>;

/** Names the object for the audit; 404 unless there is one, which is the owner's. */
function found<T extends KubeObject>(
  what: 'conversation' | 'sandbox',
  object: T | undefined,
  { about }: OwnCall,
): T {
  if (object === undefined) throw notFound(what);
  about(`${what}/${object.metadata.name}`);
  return object;
}

/** The conversation that a request is about. */
export const ownConversation = async (lookup: ResourceLookup, call: OwnCall) =>
  found('conversation', await lookup.conversation(call.owner, call.params.id), call);

/** The sandbox that a request is about. */
export const ownSandbox = async (lookup: ResourceLookup, call: OwnCall) =>
  found('sandbox', await lookup.sandbox(call.owner, call.params.id), call);
