import {
  readAdvertisement,
  type Advertisement,
  readPlainHead,
  listRequest,
  readList,
  type Capabilities,
} from './advertisement.ts';
import { GitHostError, type GitAnswer, type GitHttp } from './git-http.ts';
import type { Refs } from './ref-list.ts';
import { isDenial, referencesOf, requestOf, smartType, version2 } from './smart-http.ts';

/** `unknown`: the host does not respond with an access decision, or has no HTTP URL. */
export type GitAccess = 'granted' | 'denied' | 'unknown';

export interface Listed extends Refs {
  readonly isTruncated: boolean;
}

export interface Finding {
  readonly access: GitAccess;
  /** The references; absent if they are not requested or not readable. */
  readonly refs?: Listed | undefined;
  /** Whether the requested branch or tag exists; undefined if unknown. */
  readonly hasNamed?: boolean | undefined;
  /** The URL of the repository after redirects; absent unless access is granted. */
  readonly location?: URL;
  /** The status of the host's first response; undefined if no response arrived. */
  readonly status?: number | undefined;
  /** The reason why `access` is `unknown`, for example `timeout` or `status 500`. */
  readonly reason?: string;
  readonly isUnreachable?: boolean;
}

export interface RefsWanted {
  readonly wantsRefs: boolean;
  /** Name of a branch or tag to look up instead of listing all references. */
  readonly named?: string | undefined;
}

export interface Question extends RefsWanted {
  readonly repository: URL;
  readonly within: URL;
  readonly authorization: string | undefined;
  readonly signal: AbortSignal;
}

const service = 'git-upload-pack';

/** Maximum bytes of a response. 1 MiB has over 10,000 references; `access` needs only the first. */
const maxBodyBytes = { refs: 1024 * 1024, access: 64 * 1024, head: 1024 } as const;

/** Asks a host for references like `git ls-remote`. Does not reject if the host fails. */
export async function lsRemote(http: GitHttp, question: Question): Promise<Finding> {
  const { wantsRefs, named } = question;
  let answer: GitAnswer;
  try {
    answer = await http.send({
      ...targetOf(question),
      ...referencesOf(service),
      headers: version2,
      maxBodyBytes: maxBodyBytes[wantsRefs || named !== undefined ? 'refs' : 'access'],
    });
  } catch (error) {
    if (error instanceof GitHostError) {
      const { status, reason, isUnreachable } = error;
      return { access: 'unknown', status, reason, isUnreachable };
    }
    throw error;
  }
  const { status } = answer;
  if (isDenial(status)) return { access: 'denied', status };
  if (status !== 200) return { access: 'unknown', status, reason: `status ${status}` };
  const advertisement = readAdvertisement(answer.body, answer.contentType, named);
  switch (advertisement.kind) {
    case 'unreadable':
      return { access: 'unknown', status, reason: 'answer' };
    case 'refused':
      return advertisement.isAboutAccess
        ? { access: 'denied', status }
        : { access: 'unknown', status, reason: 'refused' };
    case 'refs':
    case 'capabilities': {
      const refs = await refsOf(http, question, answer, advertisement);
      const { repository: location } = answer;
      if (named === undefined) return { access: 'granted', status, refs, location };
      return {
        access: 'granted',
        status,
        location,
        hasNamed: refs?.hasNamed === true || (refs?.isTruncated === false ? false : undefined),
      };
    }
  }
}

const targetOf = ({ repository, within, authorization, signal }: Question) => ({
  repository,
  within,
  authorization,
  signal,
});

type Granted = Exclude<Advertisement, { readonly kind: 'unreadable' | 'refused' }>;

/** Returns undefined if the references were not requested, or the host fails to list them. */
async function refsOf(
  http: GitHttp,
  question: Question,
  { repository, isTruncated }: GitAnswer,
  advertisement: Granted,
): Promise<Listed | undefined> {
  const { wantsRefs, named } = question;
  if (!wantsRefs && named === undefined) return undefined;
  if (advertisement.kind === 'refs' && (!advertisement.isPlain || named !== undefined))
    return { ...advertisement.refs, isTruncated };
  // The next request goes to the URL to which the first one was redirected.
  const next = { ...question, repository };
  try {
    if (advertisement.kind === 'capabilities')
      return await listed(http, next, advertisement.capabilities);
    const defaultBranch = (await plainHead(http, next)) ?? advertisement.refs.defaultBranch;
    return { ...advertisement.refs, isTruncated, defaultBranch };
  } catch (error) {
    if (error instanceof GitHostError) return undefined;
    throw error;
  }
}

async function plainHead(http: GitHttp, question: Question): Promise<string | undefined> {
  const { status, body } = await http.send({
    ...targetOf(question),
    method: 'GET',
    path: '/HEAD',
    maxBodyBytes: maxBodyBytes.head,
  });
  return status === 200 ? readPlainHead(body.toString('utf8')) : undefined;
}

async function listed(
  http: GitHttp,
  question: Question,
  capabilities: Capabilities,
): Promise<Listed | undefined> {
  const { named } = question;
  const { status, body, isTruncated } = await http.send({
    ...targetOf(question),
    ...requestOf(service),
    headers: {
      ...version2,
      'content-type': smartType(service, 'request'),
      accept: smartType(service, 'result'),
    },
    body: listRequest(capabilities, named),
    maxBodyBytes: maxBodyBytes.refs,
  });
  const refs = status === 200 ? readList(body, named) : undefined;
  return refs && { ...refs, isTruncated };
}
