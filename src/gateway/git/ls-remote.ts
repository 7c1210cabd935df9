import {
  listRequest,
  readAdvertisement,
  readList,
  readPlainHead,
  type Advertisement,
  type Capabilities,
  type Refs,
} from './advertisement.ts';
import type { GitAccess } from './directory.ts';
import { GitHostError, type GitAnswer, type GitHttp } from './git-http.ts';

/** References of a repository, of which the list may be truncated. */
export interface Listed extends Refs {
  readonly isTruncated: boolean;
}

/** The result of `lsRemote` for one repository and one credential. */
export interface Finding {
  readonly access: GitAccess;
  /** The references; absent where they were not requested, or could not be read. */
  readonly refs?: Listed | undefined;
  /** Whether the requested branch or tag exists; undefined where that is not known. */
  readonly hasNamed?: boolean | undefined;
  /** The status of the host's first answer; undefined where there was none. */
  readonly status?: number | undefined;
  /** The reason why the access is unknown, as one word. */
  readonly reason?: string;
  /** Whether no connection was established. */
  readonly isUnreachable?: boolean;
}

export interface Question {
  /** The URL from which git would clone. */
  readonly repository: URL;
  /** The base URL of the host. */
  readonly within: URL;
  readonly authorization: string | undefined;
  readonly wantsRefs: boolean;
  /** A branch or tag that is requested instead of all references. */
  readonly named?: string | undefined;
  readonly signal: AbortSignal;
}

/**
 * Statuses for repositories that do not exist, or that the client may not see. Status 451: the
 * repository is taken down.
 */
const denials: ReadonlySet<number> = new Set([401, 403, 404, 410, 451]);

/**
 * Version 2 of the protocol: a host grants the access without a list of all references. Older hosts
 * ignore the header, and list them.
 */
const headers = { 'git-protocol': 'version=2' };

const infoRefs = '/info/refs';

/**
 * Maximum bytes of bodies: tens of thousands of references, or the beginning of their list, which
 * shows the access.
 */
const maxBodyBytes = { refs: 1024 * 1024, access: 64 * 1024, head: 1024 } as const;

/**
 * Asks a host for references, as `git ls-remote` does. Never rejects because of an answer of the
 * host.
 */
export async function lsRemote(http: GitHttp, question: Question): Promise<Finding> {
  const { repository, within, authorization, wantsRefs, named, signal } = question;
  const url = new URL(`${repository.pathname}${infoRefs}?service=git-upload-pack`, repository);
  let answer: GitAnswer;
  try {
    answer = await http.send({
      method: 'GET',
      url,
      within,
      ending: infoRefs,
      headers,
      authorization,
      signal,
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
  if (denials.has(status)) return { access: 'denied', status };
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
      if (named === undefined) return { access: 'granted', status, refs };
      return {
        access: 'granted',
        status,
        hasNamed: refs?.hasNamed === true || (refs?.isTruncated === false ? false : undefined),
      };
    }
  }
}

type Granted = Exclude<Advertisement, { readonly kind: 'unreadable' | 'refused' }>;

/** Undefined where the references were not requested, or the host does not list them now. */
async function refsOf(
  http: GitHttp,
  question: Question,
  { url, isTruncated }: GitAnswer,
  advertisement: Granted,
): Promise<Listed | undefined> {
  const { wantsRefs, named } = question;
  if (!wantsRefs && named === undefined) return undefined;
  if (advertisement.kind === 'refs' && (!advertisement.isPlain || named !== undefined))
    return { ...advertisement.refs, isTruncated };
  try {
    return advertisement.kind === 'refs'
      ? {
          ...advertisement.refs,
          isTruncated,
          defaultBranch: (await plainHead(http, question, url)) ?? advertisement.refs.defaultBranch,
        }
      : await listed(http, question, url, advertisement.capabilities);
  } catch (error) {
    if (error instanceof GitHostError) return undefined;
    throw error;
  }
}

/** The URL of a path next to `info/refs`, after redirects. */
const besides = (infoRefsUrl: URL, path: string): URL =>
  new URL(`${infoRefsUrl.pathname.slice(0, -infoRefs.length)}${path}`, infoRefsUrl.origin);

async function plainHead(
  http: GitHttp,
  { within, authorization, signal }: Question,
  infoRefsUrl: URL,
): Promise<string | undefined> {
  const ending = '/HEAD';
  const { status, body } = await http.send({
    method: 'GET',
    url: besides(infoRefsUrl, ending),
    within,
    ending,
    authorization,
    signal,
    maxBodyBytes: maxBodyBytes.head,
  });
  return status === 200 ? readPlainHead(body.toString('utf8')) : undefined;
}

async function listed(
  http: GitHttp,
  { within, authorization, named, signal }: Question,
  infoRefsUrl: URL,
  capabilities: Capabilities,
): Promise<Listed | undefined> {
  const ending = '/git-upload-pack';
  const { status, body, isTruncated } = await http.send({
    method: 'POST',
    url: besides(infoRefsUrl, ending),
    within,
    ending,
    headers: {
      ...headers,
      'content-type': 'application/x-git-upload-pack-request',
      accept: 'application/x-git-upload-pack-result',
    },
    body: listRequest(capabilities, named),
    authorization,
    signal,
    maxBodyBytes: maxBodyBytes.refs,
  });
  const refs = status === 200 ? readList(body, named) : undefined;
  return refs && { ...refs, isTruncated };
}
