import type { Clock } from '@conversation-operator/base/clock';
import type { ApiKey } from '../../resources/api-key.ts';
import { issueKey, type IssueKeyOptions } from '../auth/issue-key.ts';

/** How long a link is valid. */
export const linkMinutes = 10;

export interface LoginLinkOptions extends Required<
  Pick<IssueKeyOptions, 'client' | 'namespace' | 'owner' | 'role'>
> {
  readonly clock: Pick<Clock, 'now'>;
  /** URL of the gateway. */
  readonly url: string;
  /** The key that the link, and the session that it makes, end with. */
  readonly maker?: ApiKey | undefined;
}

/**
 * Creates a link that signs in once, within 10 minutes. The link's ApiKey opens nothing else; the
 * gateway that deletes it makes the session, so that no two do.
 */
export async function createLoginLink({
  url,
  clock,
  maker,
  ...options
}: LoginLinkOptions): Promise<string> {
  const { key } = await issueKey({
    ...options,
    issuedBy: maker && { name: maker.metadata.name, uid: maker.metadata.uid },
    description: 'A link to sign in.',
    signIn: 'Link',
    expiresAt: new Date(clock.now() + linkMinutes * 60_000).toISOString(),
  });
  return `${url.replace(/\/+$/, '')}/login?token=${key}`;
}
