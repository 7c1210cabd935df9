import { z } from 'zod';
import { plainText } from '../../../resources/plain-text.ts';
import { maxPullRequestUrl } from '../../../resources/pull-request.ts';
import { repository } from '../../http/fields.ts';
import { HostApiError, type PullRequestComment } from './host-api.ts';

/** Maximum characters that are kept of each text of a host. */
const maxTitle = 512;
const maxBody = 16 * 1024;
const maxCommentBody = 4 * 1024;
const maxName = 255;
/** Maximum comments that are kept; older ones are dropped. */
export const maxComments = 50;

const textOf = (maxLength: number) => z.string().transform((text) => plainText(text, maxLength));

export const title = () => textOf(maxTitle);
/** A description. Hosts report null for an empty one. */
export const description = () =>
  z
    .string()
    .nullish()
    .transform((text) => plainText(text ?? '', maxBody));
export const commentBody = () => textOf(maxCommentBody);
/** The name of a branch, a file or a person. */
export const name = () => textOf(maxName);
/** The login of a person. Hosts report no person for a deleted account. */
export const login = () =>
  z
    .object({ login: name() })
    .nullish()
    .transform((person) => person?.login ?? 'ghost');
/** The name of a repository, in the form that later requests accept. */
export const repositoryName = () => repository();
export const path = () => textOf(1024);
export const time = () => z.iso.datetime({ offset: true });
export const pullRequestNumber = () => z.int().positive();

/** A URL without credentials. Encoding may lengthen it, so its length is checked after that. */
export const pageUrl = () =>
  z
    .url({ protocol: /^https?$/ })
    .transform((text) => {
      const url = new URL(text);
      url.username = '';
      url.password = '';
      return url.href;
    })
    .pipe(z.string().max(maxPullRequestUrl));

/** The latest `maxComments` comments, oldest first. */
export const latest = (comments: readonly PullRequestComment[]): readonly PullRequestComment[] =>
  comments
    .toSorted((one, other) => Date.parse(one.time) - Date.parse(other.time))
    .slice(-maxComments);

/** A comment, without `path` and `line` if the host reports none. */
export const commentOf = ({
  path: file,
  line,
  ...comment
}: Omit<PullRequestComment, 'path' | 'line'> & {
  readonly path?: string | null | undefined;
  readonly line?: number | null | undefined;
}): PullRequestComment => ({
  ...comment,
  ...(file === undefined || file === null || file === '' ? {} : { path: file }),
  ...(line === undefined || line === null || line < 1 ? {} : { line }),
});

/** A line of a file. Hosts report 0 or null if there is none. */
export const line = () => z.int().nonnegative().nullish();

/** The segments of the name. Throws for an invalid name, because `..` would change a URL's path. */
export function segmentsOf(target: { readonly repository: string }): readonly string[] {
  if (!repository().safeParse(target.repository).success)
    throw new HostApiError('not-found', 'The name of the repository is not in owner/name form');
  return target.repository.split('/');
}

export const encodedRepository = (target: { readonly repository: string }): string =>
  segmentsOf(target).map(encodeURIComponent).join('/');
