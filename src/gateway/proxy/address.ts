/**
 * The address in a request for the agent of a sandbox: the sandbox, and a path. A request never
 * names the host that it is forwarded to.
 */
export interface ProxyAddress {
  readonly sandbox: string;
  /** The path for the agent, with the query, exactly as the client has sent it. */
  readonly path: string;
  /**
   * The part of the client's URL before `path`: empty where the sandbox has an origin of its own.
   */
  readonly prefix: string;
}

/** Name under which clients know the port of an agent, the only one that a sandbox exposes. */
export const agentPortName = 'AGENT_SERVER';

const pathForm = /^(\/sandboxes\/([a-z0-9][-a-z0-9.]{0,252})\/AGENT_SERVER)(?=[/?]|$)(.*)$/s;

/**
 * Reads `/sandboxes/{id}/AGENT_SERVER/…`; undefined for anything else, also for ids that are not
 * spelled plainly.
 */
export function parsePath(target: string): ProxyAddress | undefined {
  if (!target.startsWith('/sandboxes/')) return undefined;
  const [, prefix, sandbox, rest] = pathForm.exec(target) ?? [];
  if (prefix === undefined || sandbox === undefined || rest === undefined) return undefined;
  return { sandbox, path: rest.startsWith('/') ? rest : `/${rest}`, prefix };
}

const openPaths: ReadonlySet<string> = new Set(['/alive', '/health', '/ready', '/server_info']);

/**
 * Whether the agent answers the request without a key. The path must equal one of `openPaths`
 * exactly.
 */
export function isOpen(method: string | undefined, path: string): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false;
  const query = path.indexOf('?');
  return openPaths.has(query < 0 ? path : path.slice(0, query));
}
