import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT, type JWK } from 'jose';

interface Grant {
  readonly nonce: string;
  readonly challenge: string;
  readonly redirectUri: string;
  readonly subject: string;
}

export interface Person {
  readonly sub: string;
  readonly [claim: string]: unknown;
}

type SigningKey = Awaited<ReturnType<typeof generateKeyPair>>['privateKey'];

/** A claim set and the key that signs it, which a test may replace to forge a token. */
interface Token {
  claims: Record<string, unknown>;
  algorithm: 'RS256' | 'none' | 'other key';
}

/** An OpenID provider that lies where a test wants it to, and signs `person` in without a form. */
export class TestIssuer {
  /** The person who is signed in; undefined: a login form would appear. */
  person: Person | undefined = { sub: 'alice', name: 'Alice', groups: ['developers'] };
  /** Changes the ID token before it is signed. */
  forge: (token: Token) => void = () => undefined;
  /** Changes the address that the browser is sent back to. */
  redirect: (back: URL) => void = () => undefined;
  /** Answers in place of the provider; returns true where it did. */
  answer: (request: IncomingMessage, response: ServerResponse) => boolean = () => false;
  /** Claims that userinfo has besides those of the ID token. */
  userinfo: Readonly<Record<string, unknown>> = {};
  /** Paths of the requests, without queries. */
  readonly requests: string[] = [];
  /** The answer about an access token. */
  introspection: Readonly<Record<string, unknown>> = { active: true };
  accessToken = 'an-access-token';
  /** Seconds until the access token ends; undefined: the issuer does not say that. */
  expiresIn: number | undefined = 300;
  readonly #grants = new Map<string, Grant>();
  readonly #server: Server;
  #key: SigningKey | undefined;
  #jwk: JWK = {};

  private constructor() {
    this.#server = createServer((request, response) => {
      void this.#serve(request, response).catch((error: unknown) => {
        response.writeHead(500).end(String(error));
      });
    });
  }

  static async start(): Promise<TestIssuer> {
    const issuer = new TestIssuer();
    issuer.#server.listen(0, '127.0.0.1');
    await once(issuer.#server, 'listening');
    await issuer.rotateKey();
    return issuer;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The earlier key is withdrawn at once. */
  async rotateKey(): Promise<void> {
    const { privateKey, publicKey } = await generateKeyPair('RS256');
    this.#key = privateKey;
    this.#jwk = {
      ...(await exportJWK(publicKey)),
      kid: randomBytes(4).toString('hex'),
      use: 'sig',
      alg: 'RS256',
    };
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', this.url);
    this.requests.push(pathname);
    if (this.answer(request, response)) return;
    const json = (body: object, status = 200) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    switch (pathname) {
      case '/.well-known/openid-configuration':
        json({
          issuer: this.url,
          authorization_endpoint: `${this.url}/authorize`,
          token_endpoint: `${this.url}/token`,
          jwks_uri: `${this.url}/keys`,
          userinfo_endpoint: `${this.url}/userinfo`,
          end_session_endpoint: `${this.url}/end`,
          introspection_endpoint: `${this.url}/introspect`,
          response_types_supported: ['code'],
          subject_types_supported: ['public'],
          id_token_signing_alg_values_supported: ['RS256'],
          authorization_response_iss_parameter_supported: true,
        });
        return;
      case '/keys':
        json({ keys: [this.#jwk] });
        return;
      case '/userinfo':
        json({ sub: this.person?.sub, ...this.userinfo });
        return;
      case '/introspect':
        json(this.introspection);
        return;
      case '/authorize':
        this.#authorize(searchParams, response);
        return;
      case '/token':
        await this.#token(request, json);
        return;
      default:
        response.writeHead(200).end('signed out');
    }
  }

  #authorize(query: URLSearchParams, response: ServerResponse): void {
    const redirectUri = query.get('redirect_uri') ?? '';
    const back = new URL(redirectUri);
    back.searchParams.set('state', query.get('state') ?? '');
    back.searchParams.set('iss', this.url);
    if (this.person === undefined) {
      if (query.get('prompt') !== 'none') {
        response.writeHead(200).end('a login form');
        return;
      }
      back.searchParams.set('error', 'login_required');
    } else {
      const code = randomBytes(8).toString('hex');
      this.#grants.set(code, {
        nonce: query.get('nonce') ?? '',
        challenge: query.get('code_challenge') ?? '',
        redirectUri,
        subject: this.person.sub,
      });
      back.searchParams.set('code', code);
    }
    this.redirect(back);
    response.writeHead(302, { location: back.href }).end();
  }

  async #token(
    request: IncomingMessage,
    json: (body: object, status?: number) => void,
  ): Promise<void> {
    const form = new URLSearchParams(await textOf(request));
    const code = form.get('code') ?? '';
    const grant = this.#grants.get(code);
    this.#grants.delete(code);
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    const [, basic = ''] = (request.headers.authorization ?? '').split('Basic ');
    // Clients encode both parts as in a form (RFC 6749, 2.3.1).
    const client = decodeURIComponent(Buffer.from(basic, 'base64').toString());
    const isRight =
      grant?.challenge === challenge &&
      grant.redirectUri === form.get('redirect_uri') &&
      client === 'gateway:gateway-secret';
    if (grant === undefined || !isRight || this.person === undefined) {
      json({ error: 'invalid_grant' }, 400);
      return;
    }
    const now = Math.floor(Date.now() / 1000);
    const token: Token = {
      claims: {
        ...this.person,
        iss: this.url,
        aud: 'gateway',
        iat: now,
        exp: now + 300,
        nonce: grant.nonce,
      },
      algorithm: 'RS256',
    };
    this.forge(token);
    json({
      access_token: this.accessToken,
      token_type: 'Bearer',
      expires_in: this.expiresIn,
      id_token: await this.#signed(token),
    });
  }

  async #signed({ claims, algorithm }: Token): Promise<string> {
    if (algorithm === 'none') return new UnsecuredJWT(claims).encode();
    const other =
      algorithm === 'other key' ? (await generateKeyPair('RS256')).privateKey : undefined;
    const key = other ?? this.#key;
    if (key === undefined) throw new Error('the issuer has not started');
    const kid = this.#jwk.kid ?? '';
    return new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid }).sign(key);
  }
}
