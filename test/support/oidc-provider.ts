import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import Provider, { interactionPolicy } from 'oidc-provider';

export interface Account {
  readonly password: string;
  readonly name: string;
  groups: readonly string[];
}

/**
 * The certified provider `oidc-provider`, with accounts and a form to sign in. Its tokens have the
 * claims `name` and `groups`.
 */
export class OidcProvider {
  readonly accounts: Map<string, Account>;
  readonly #server: Server;
  readonly #cookieKey = randomBytes(32).toString('hex');
  readonly #tokens: { readonly destroy: () => Promise<void> }[] = [];
  #provider: Provider | undefined;

  private constructor(accounts: Readonly<Record<string, Account>>) {
    this.accounts = new Map(Object.entries(accounts));
    this.#server = createServer((request, response) => {
      void this.#serve(request, response).catch((error: unknown) => {
        response.writeHead(500).end(String(error));
      });
    });
  }

  static async start(accounts: Readonly<Record<string, Account>>): Promise<OidcProvider> {
    const provider = new OidcProvider(accounts);
    provider.#server.listen(0, '127.0.0.1');
    await once(provider.#server, 'listening');
    provider.serveClient('http://127.0.0.1:9');
    return provider;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Serves the client `gateway` of the service at this address, in place of an earlier one. */
  serveClient(gatewayUrl: string): void {
    const policy = interactionPolicy.base();
    // Nobody is asked for consent.
    policy.remove('consent');
    this.#provider = new Provider(this.url, {
      clients: [
        {
          client_id: 'gateway',
          client_secret: 'gateway-secret',
          redirect_uris: [`${gatewayUrl}/oauth/callback/company`],
          post_logout_redirect_uris: [`${gatewayUrl}/login`],
        },
      ],
      cookies: { keys: [this.#cookieKey] },
      scopes: ['openid', 'profile', 'groups'],
      claims: { openid: ['sub'], profile: ['name'], groups: ['groups'] },
      conformIdTokenClaims: false,
      features: {
        devInteractions: { enabled: false },
        rpInitiatedLogout: { enabled: true },
        introspection: { enabled: true },
      },
      interactions: { policy, url: (_context, { uid }) => `/interaction/${uid}` },
      ttl: { AccessToken: 300, IdToken: 300, Session: 3600, Grant: 3600, Interaction: 600 },
      findAccount: (_context, id) => {
        const account = this.accounts.get(id);
        if (account === undefined) return undefined;
        const { name } = account;
        return { accountId: id, claims: () => ({ sub: id, name, groups: [...account.groups] }) };
      },
      loadExistingGrant: async ({ oidc }) => {
        const grant = new oidc.provider.Grant({
          ...(oidc.client && { clientId: oidc.client.clientId }),
          ...(oidc.session?.accountId !== undefined && { accountId: oidc.session.accountId }),
        });
        grant.addOIDCScope('openid profile groups');
        await grant.save();
        return grant;
      },
    });
    this.#provider.on('access_token.saved', (token) => this.#tokens.push(token));
  }

  /** Ends the access tokens that are active, as a revocation does. */
  async endTokens(): Promise<void> {
    for (const token of this.#tokens.splice(0)) await token.destroy();
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const provider = this.#provider;
    if (provider === undefined) throw new Error('the provider has not started');
    if (request.url?.startsWith('/interaction/') !== true) {
      await provider.callback()(request, response);
      return;
    }
    await provider.interactionDetails(request, response);
    const form = (status: number, notice: string) =>
      response
        .writeHead(status, { 'content-type': 'text/html; charset=utf-8' })
        .end(
          `<!doctype html><html lang="en"><title>Example Inc.</title><h1>Example Inc.</h1><p>${notice}</p><form method="post"><p><label>Name <input name="username"></label><p><label>Password <input name="password" type="password"></label><p><button>Sign in</button></form></html>`,
        );
    if (request.method === 'GET') {
      form(200, '');
      return;
    }
    const fields = new URLSearchParams(await textOf(request));
    const name = fields.get('username') ?? '';
    if (this.accounts.get(name)?.password !== fields.get('password')) {
      form(401, 'Wrong name or password.');
      return;
    }
    await provider.interactionFinished(request, response, { login: { accountId: name } });
  }
}
