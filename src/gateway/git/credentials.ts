/** What opens private repositories of a git host. */
export interface GitCredential {
  /** Of the Authorization header: a secret. */
  readonly authorization: string;
  /** What it is called where people look after it: no secret. */
  readonly name: string;
}

export interface GitCredentials {
  /** An owner's own credential for a provider, else everybody's; as it is now. Never rejects. */
  of(owner: string, provider: string): Promise<GitCredential | undefined>;
}

/** HTTP's basic authentication, RFC 7617. */
export const basicAuthorization = (user: string, password: string): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

/** The user that a base URL names, as git takes it. */
export function credentialIn({ username, password }: URL): GitCredential | undefined {
  if (username === '' && password === '') return undefined;
  return { authorization: basicAuthorization(decoded(username), decoded(password)), name: 'in the URL' };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
