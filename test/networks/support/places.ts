/** The address family of the cluster: 4, 6, or 46, which is IPv4 first. */
export const family = process.env['NETWORKS_FAMILY'] ?? '4';
const isIPv6 = family === '6';

export const publicHost = 'git.example.test';
export const gitPort = 8080;
export const modelHost = 'models.example.test';
export const modelPort = 8081;
/** Answer of that model to every request. */
export const modelAnswer = 'The model outside answers.';
/** Hosts that only the proxy can resolve; their certificate is of a private authority. */
export const hiddenHost = 'git.hidden.test';
export const hiddenModelHost = 'models.hidden.test';
export const proxyPort = 3128;
/** Ranges for documentation, which no policy of the chart counts as private. */
const publicAddresses = { '4': ['203.0.113.10'], '6': ['2001:db8:1::10'] } as const;
export const publicNames: readonly string[] = [
  ...(family === '6' ? [] : publicAddresses['4']),
  ...(family === '4' ? [] : publicAddresses['6']),
].flatMap((address) => [publicHost, modelHost].map((host) => `${host}=${address}`));

/** Addresses of `run`, in the first family of the cluster. */
export const addresses = isIPv6
  ? {
      dns: 'fd00:96::a',
      metadata: 'fd00:ec2::254',
      privateHost: 'fd00:77::10',
      proxy: '2001:db8:1::3',
    }
  : {
      dns: '10.96.0.10',
      metadata: '169.254.169.254',
      privateHost: '172.20.0.10',
      proxy: '203.0.113.3',
    };
