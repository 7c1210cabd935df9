/**
 * The address in a request for a sandbox: a sandbox, a port and a path. A request never names the
 * host that it is forwarded to.
 */
export interface ProxyAddress {
  readonly sandbox: string;
  readonly portName: PortName;
  /** The path for the agent, with the query, exactly as the client has sent it. */
  readonly path: string;
  /**
   * The part of the client's URL before `path`: empty where the sandbox has an origin of its own.
   */
  readonly prefix: string;
}

/** The ports that a sandbox exposes, under the names that clients know them by. */
export const portNames = ['AGENT_SERVER'] as const;
export type PortName = (typeof portNames)[number];

const isPortName = (name: string): name is PortName =>
  (portNames as readonly string[]).includes(name);

const pathForm =
  /^(\/sandboxes\/([a-z0-9][-a-z0-9.]{0,252})\/([A-Z][A-Z0-9_]{0,31}))(?=[/?]|$)(.*)$/s;

/**
 * Reads `/sandboxes/{id}/{port name}/…`; undefined for anything else, also for ids and names that
 * are not spelled plainly.
 */
export function parsePath(target: string): ProxyAddress | undefined {
  if (!target.startsWith('/sandboxes/')) return undefined;
  const [, prefix, sandbox, portName, rest] = pathForm.exec(target) ?? [];
  if (prefix === undefined || sandbox === undefined || portName === undefined || rest === undefined)
    return undefined;
  return isPortName(portName)
    ? { sandbox, portName, path: rest.startsWith('/') ? rest : `/${rest}`, prefix }
    : undefined;
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
