# A managed node group of machines that hold data, on EKS. Its labels and taint are those of docs/how-to/clouds.md; the disks are
# mounted by local-disk.yaml.

variable "cluster_name" {
  type = string
}

variable "node_role_arn" {
  type = string
}

variable "subnet_ids" {
  description = "One for each zone that has nodes: with topologyKey replicas of a bucket are in different zones."
  type        = list(string)
}

resource "aws_eks_node_group" "colocation_data" {
  cluster_name    = var.cluster_name
  node_group_name = "colocation-data"
  node_role_arn   = var.node_role_arn
  subnet_ids      = var.subnet_ids

  # Machines with one local disk each.
  instance_types = ["i4i.2xlarge"]
  # A spot machine goes with its disk within two minutes.
  capacity_type = "ON_DEMAND"

  labels = {
    "colocation.dev/data" = "true"
  }

  taint {
    key    = "dedicated"
    value  = "colocation"
    effect = "NO_SCHEDULE"
  }

  # At least one more than replicas, for repairs. Before you take some away: `colocation drain NODE` for each.
  scaling_config {
    min_size     = 4
    desired_size = 4
    max_size     = 12
  }

  # One machine at a time. An update whose copies take longer than 15 minutes fails and loses nothing: apply again. Forced, it
  # would take the machine with what is on it.
  update_config {
    max_unavailable = 1
  }
  force_update_version = false

  timeouts {
    update = "6h"
  }
}
