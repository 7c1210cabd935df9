import { randomBytes } from 'node:crypto';
import type { Forge } from './forge.ts';

/** Permissions as GitHub names them. Those of other names make no difference to the forge. */
export interface AppPermissions {
  readonly contents?: 'read' | 'write';
  readonly pull_requests?: 'read' | 'write';
  readonly metadata?: 'read';
}

export interface AppToken {
  readonly token: string;
  /** The token opens nothing any more from then on. */
  readonly expiresAt: Date;
  /** Ends the token before its time. The second call does nothing. */
  revoke(): Promise<void>;
}

export interface AppTokens extends AsyncDisposable {
  /** A token for one repository, `owner/name`, and nothing else. */
  mintFor(repository: string, permissions: AppPermissions, lifetimeMs: number): Promise<AppToken>;
}

/**
 * Mints tokens as the installation of a GitHub App does: short, and for one repository. Gitea binds
 * no token to a repository and ends none, so each is that of a fresh user who collaborates on the
 * repository alone and is deleted in the end. Disposing ends all tokens.
 */
export function newAppTokens(
  forge: Pick<Forge, 'newUser' | 'deleteUser' | 'newToken' | 'addCollaborator'>,
): AppTokens {
  const alive = new Set<AppToken>();
  return {
    async mintFor(repository, permissions, lifetimeMs) {
      const user = `app-${randomBytes(6).toString('hex')}`;
      const levels = scopesOf(permissions);
      await forge.newUser(user);
      await forge.addCollaborator(repository, user, canWrite(permissions) ? 'write' : 'read');
      const { text } = await forge.newToken(user, levels);
      let ended: Promise<void> | undefined;
      const token: AppToken = {
        token: text,
        expiresAt: new Date(Date.now() + lifetimeMs),
        revoke: () => {
          clearTimeout(timer);
          alive.delete(token);
          return (ended ??= forge.deleteUser(user));
        },
      };
      // A forge that has ended meanwhile has ended its tokens too.
      const timer = setTimeout(() => void token.revoke().catch(() => undefined), lifetimeMs);
      timer.unref();
      alive.add(token);
      return token;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...alive].map((token) => token.revoke()));
    },
  };
}

const canWrite = ({ contents, pull_requests: pulls }: AppPermissions): boolean =>
  contents === 'write' || pulls === 'write';

/** Gitea's scope `repository` covers code and pull requests; their comments are issue comments. */
const scopesOf = (permissions: AppPermissions): readonly string[] =>
  canWrite(permissions) ? ['write:repository', 'write:issue'] : ['read:repository', 'read:issue'];
