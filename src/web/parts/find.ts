export { Find } from '../components/find.tsx';
