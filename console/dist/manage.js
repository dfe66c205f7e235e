var e=()=>null,n=()=>null;export{n as ComparePage,e as NewRunPage};
