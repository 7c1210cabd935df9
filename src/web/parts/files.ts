export { Files } from '../components/files.tsx';
