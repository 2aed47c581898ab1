"""GPUs: the products, and the classification of resources of a cluster.

Put here: the catalogue, classification, weights, the number of cards of a node.
Not here: MIG layouts (`domain.mig`), or prices (`domain.decisions`).
"""

from domain.gpu.catalogue import NOT_A_DEVICE as NOT_A_DEVICE
from domain.gpu.catalogue import Catalogue as Catalogue
from domain.gpu.catalogue import GpuProduct as GpuProduct
from domain.gpu.catalogue import Vendor as Vendor
from domain.gpu.claims import claimed_resource as claimed_resource
from domain.gpu.claims import classify_claim as classify_claim
from domain.gpu.claims import consumes_memory as consumes_memory
from domain.gpu.classify import classify as classify
from domain.gpu.kinds import WHOLE_CARD as WHOLE_CARD
from domain.gpu.kinds import Classified as Classified
from domain.gpu.kinds import DeviceForm as DeviceForm
from domain.gpu.kinds import DeviceKind as DeviceKind
from domain.gpu.kinds import Reason as Reason
from domain.gpu.kinds import Unclassified as Unclassified
from domain.gpu.labels import NodeLabels as NodeLabels
from domain.gpu.names import RequestedNames as RequestedNames
from domain.gpu.names import may_be_a_device as may_be_a_device
from domain.gpu.product_tables import parse_catalogue as parse_catalogue
from domain.gpu.weights import WeightPolicy as WeightPolicy
from domain.gpu.weights import weight as weight
