import type { RefsWanted } from '@conversation-operator/git/ls-remote';
import { fingerprintOf, type GitCredential } from './credentials.ts';
import type { Host } from './hosts.ts';

/** A read of one repository for one owner. */
export interface Inquiry extends RefsWanted {
  readonly owner: string;
  readonly host: Host;
  readonly repository: string;
  /** Undefined where the host is asked without one. */
  readonly credential: GitCredential | undefined;
}

/** Identifies inquiries about one repository by one credential, of any owner. */
export const accessKeyOf = ({ host, repository, credential }: Inquiry): string =>
  JSON.stringify([
    host.provider,
    repository,
    credential === undefined ? '' : fingerprintOf(credential),
  ]);

/** Identifies inquiries that want the same references too. The access alone is `accessKeyOf`. */
export function keyOf(inquiry: Inquiry): string {
  const accessKey = accessKeyOf(inquiry);
  if (inquiry.named !== undefined) return `${accessKey} named ${inquiry.named}`;
  return inquiry.wantsRefs ? `${accessKey} refs` : accessKey;
}
