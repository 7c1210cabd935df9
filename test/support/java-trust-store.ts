import { createHash, X509Certificate } from 'node:crypto';

/**
 * The certificates by their aliases in a file of Java's own format (JKS), read with the checks of
 * `sun.security.provider.JavaKeyStore`. Throws for a file that Java refuses.
 */
export function readJavaTrustStore(
  file: Buffer,
  password: string,
): ReadonlyMap<string, X509Certificate> {
  let at = 0;
  const take = (bytes: number): Buffer => {
    if (at + bytes > file.length) throw new Error(`the file ends before byte ${at + bytes}`);
    at += bytes;
    return file.subarray(at - bytes, at);
  };
  const integer = (): number => take(4).readUInt32BE();
  const text = (): string => take(take(2).readUInt16BE()).toString();
  const expectNumber = (what: string, expected: number): void => {
    const found = integer();
    if (found !== expected) throw new Error(`the ${what} is ${found}, not ${expected}`);
  };
  expectNumber('magic number', 0xfeedfeed);
  expectNumber('version', 2);
  const found = new Map<string, X509Certificate>();
  for (let left = integer(); left > 0; left -= 1) {
    expectNumber('tag of a trusted certificate', 2);
    const alias = text();
    if (found.has(alias)) throw new Error(`the alias ${alias} is there twice`);
    take(8); // The time of the entry.
    const type = text();
    if (type !== 'X.509') throw new Error(`a certificate has the type ${type}`);
    found.set(alias, new X509Certificate(take(integer())));
  }
  const digest = createHash('sha1')
    .update(Buffer.from(password, 'utf16le').swap16())
    .update('Mighty Aphrodite')
    .update(file.subarray(0, at))
    .digest();
  if (!digest.equals(file.subarray(at))) throw new Error('the digest is that of another content');
  return found;
}
