/** Returns the URL from which git clones the repository, below the base URL of its host. */
export function repositoryUrl(base: URL, repository: string): URL {
  const path = repository.split('/').map(encodeURIComponent).join('/');
  return new URL(`${base.pathname.replace(/\/+$/, '')}/${path}.git`, base);
}

/** The inverse of `repositoryUrl`; undefined for a URL that is not below the base URL. */
export function repositoryName(base: URL, { origin, pathname }: URL): string | undefined {
  const prefix = `${base.pathname.replace(/\/+$/, '')}/`;
  if (origin !== base.origin || !pathname.startsWith(prefix)) return undefined;
  try {
    return decodeURIComponent(pathname.slice(prefix.length)).replace(/\.git$/, '');
  } catch {
    return undefined;
  }
}

/** Services of git's smart protocol: fetches and pushes. Source: gitprotocol-http.adoc. */
export type GitService = 'git-upload-pack' | 'git-receive-pack';

export interface SmartRequest {
  readonly repository: string;
  readonly service: GitService;
  /** `references`: the GET with which a fetch or push begins; `service`: a POST that follows. */
  readonly part: 'references' | 'service';
}

const infoRefs = '/info/refs';

/** Returns the request for the references, with which a fetch or push begins. */
export const referencesOf = (service: GitService) =>
  ({ method: 'GET', path: infoRefs, query: `service=${service}` }) as const;

export const requestOf = (service: GitService) =>
  ({ method: 'POST', path: `/${service}` }) as const;

/** Media type of the response to `referencesOf`, or of the request or response of `requestOf`. */
export const smartType = (
  service: GitService,
  what: 'advertisement' | 'request' | 'result',
): string => `application/x-${service}-${what}`;

export const mediaTypeOf = (contentType: string): string =>
  contentType.split(';', 1)[0]?.trim().toLowerCase() ?? '';

/** Requests protocol version 2: its first response has no references. Old hosts ignore this. */
export const version2 = { 'git-protocol': 'version=2' } as const;

/** Statuses of repositories that are absent or hidden from the client; 451: taken down. */
const denials: ReadonlySet<number> = new Set([401, 403, 404, 410, 451]);
export const isDenial = (status: number): boolean => denials.has(status);

const isService = (text: string | null): text is GitService =>
  text === 'git-upload-pack' || text === 'git-receive-pack';

const endings = ['info/refs', 'git-upload-pack', 'git-receive-pack'].map((end) => end.split('/'));

/** Returns the number of path segments of the repository, whose name may lack `.git`. */
function repositoryLength(path: readonly string[]): number {
  const end = path.findLastIndex((segment) => segment.endsWith('.git'));
  if (end >= 0) return end + 1;
  const ending = endings.find(
    (segments) => path.slice(-segments.length).join('/') === segments.join('/'),
  );
  return path.length - (ending?.length ?? path.length);
}

/** Reads requests to decoded paths like `{owner}/{name}.git/info/refs`; undefined for others. */
export function readSmartRequest(
  method: string | undefined,
  path: readonly string[],
  query: URLSearchParams,
): SmartRequest | undefined {
  const length = repositoryLength(path);
  if (length < 2) return undefined;
  const repository = path
    .slice(0, length)
    .join('/')
    .replace(/\.git$/, '');
  const what = `/${path.slice(length).join('/')}`;
  const isReferences = method === 'GET' && what === infoRefs;
  const isPost = method === 'POST' && query.size === 0;
  const service = isReferences ? query.get('service') : isPost ? what.slice(1) : null;
  if (!isService(service)) return undefined;
  return { repository, service, part: isReferences ? 'references' : 'service' };
}
